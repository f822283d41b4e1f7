"""What the members of a run hold, from one part of the run to the next: taken, and given back."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from artos.errors import CheckpointFault, ShmTooSmall
from artos.runs.plan import Site
from artos.runtime.held import OF_OTHERS, UNFIT, Held
from artos.specs.members import ACTORS, Member
from artos.system.shm import free_bytes, shm_root
from artos.system.snapshot import NotKept, Snapshot
from artos.version import VERSION
from head.run.coordination.ports import NO_ROOM
from head.run.run import Run
from head.run.saved_books import resumed, saved

_SILENT = "{} starts again: it did not say what it held before its process ended"
_log = logging.getLogger(__name__)


class States(msgspec.Struct):
    """What a snapshot of a run holds, pickled."""

    run: bytes
    """The books of the coordinator, and the queue of members that live in its process."""
    set_up: tuple[Member, ...]
    """The members that were set up."""
    members: dict[Member, bytes]
    """The states of those that can go on from them."""
    streams: bytes = b""
    """The global random streams of members in one process; others have theirs in their states."""
    version: str = ""
    """The version of ARTOS that saved them."""
    apart: bool = False
    """Whether members were processes of their own."""


class _Members(msgspec.Struct):
    members: dict[Member, msgspec.Raw]


def members_in(data: bytes) -> Iterable[Member]:
    """The members whose states a snapshot holds; none if there is no snapshot.

    Raises:
        CheckpointFault: it was saved by other code.
    """
    try:
        return msgspec.msgpack.decode(data, type=_Members).members if data else ()
    except ValueError as error:
        raise unfit(error) from error


def states_in(data: bytes, *, apart: bool) -> States:
    """The states that a snapshot holds.

    Raises:
        NotKept: of another version, or of members that lived elsewhere.
        ValueError: damaged.
    """
    found = msgspec.msgpack.decode(data, type=States)
    if found.version != VERSION:
        raise NotKept(f"of ARTOS {found.version or 'of earlier days'}, this is {VERSION}")
    if found.apart != apart:
        raise NotKept(f"of a run {'without' if found.apart else 'with'} --inline")
    return found


def unfit(error: Exception) -> CheckpointFault:
    """What a run is refused with whose states do not fit."""
    return CheckpointFault("of the run", OF_OTHERS.format(error))


class Handover:
    """Members in processes hand over what they hold as they end, and take it up as they start.

    Each does so by a file in the run's memory, which is too large for a mailbox.
    """

    def __init__(self, site: Site, data: bytes) -> None:
        self._site, self._data = site, data
        self._found: States | None = None
        self._gated: set[Member] = set()
        self.over = False
        """Whether all have ended in order, and what they still answered is booked."""

    # -- from the part before ------------------------------------------------------------------

    def lay_out(self) -> None:
        """Put there what members take up, before any of them is started.

        Raises:
            CheckpointFault: it was saved by other code.
            ShmTooSmall: there is no room for it.
        """
        if not self._data:
            return
        try:
            self._found = found = states_in(self._data, apart=True)
        except UNFIT as error:
            raise unfit(error) from error
        try:
            for member, data in found.members.items():
                Held(data).write(self._site.held_path(member))
        except OSError as error:
            root = shm_root()
            raise ShmTooSmall(len(self._data), free_bytes(root), str(root)) from error
        self._data = b""

    def begin(self, run: Run, hosted: Sequence[Member]) -> bool:
        """Go on with the books of the part before; False if there are none.

        No member is asked for anything before all have taken up what they held: if one of them
        cannot, nothing has happened that is not in the checkpoint.

        Raises:
            CheckpointFault: they were saved by other code, or with other settings.
        """
        if (found := self._found) is None:
            return False
        self._found = None
        # Before the books are there it is not known which actors have a process.
        everyone = {*hosted, *(Member(ACTORS, actor) for actor in range(run.plan.actors))}
        run.roster.down.update(everyone)
        try:
            resumed(run, found.run)
        except UNFIT as error:
            raise unfit(error) from error
        prepared = {Member(ACTORS, actor) for actor in range(run.roster.prepared)}
        for member in sorted(prepared):
            run.roster.started(member)
        self._gated = {*hosted, *prepared}
        run.roster.down.difference_update(everyone - self._gated)
        return True

    def look(self, run: Run) -> None:
        """Once all have taken up what they held, ask them for what they had not answered."""
        if not self._gated:
            return
        down, ready, gone = run.roster.down, run.roster.is_ready, run.roster.gone
        # One that died meanwhile is no longer down once it was started again, and asked.
        missing = [m for m in self._gated if m in down and m not in gone and not ready(m)]
        roomless = {m for m in self._gated if run.roster.unplaced(m) == NO_ROOM}
        actors = {m for m in self._gated if run.members.role(m).samples}
        # On a cluster there may be room for some of the actors only: those begin.
        if roomless.issuperset(missing) and not (actors and roomless >= actors):
            self._open(run)
            return
        for member in self._gated:  # nobody is late who was not asked
            run.invocations.restamp(member, run.ports.clock.now())

    def _open(self, run: Run) -> None:
        down = run.roster.down
        gated, self._gated = self._gated & down, set()
        down -= gated
        now = run.ports.clock.now()
        for member in sorted(gated):
            run.invocations.restamp(member, now)
            for call in run.invocations.of(member):
                run.ports.processes.passers[member].pass_message(call)

    # -- for the next part ---------------------------------------------------------------------

    def snapshot(self, run: Run, hosted: Sequence[Member]) -> Snapshot | None:
        """What they held when they ended; None before that, or if the run itself cannot be kept.

        Before the first version of the weights there is nothing that it could belong to.
        """
        if not self.over or run.published < 0:
            return None
        try:
            books = saved(run)
        except NotKept as why:
            _log.warning("saved without what members hold: %s", why)
            return None
        actors = [Member(ACTORS, actor) for actor in range(run.plan.actors)]
        beside = dict.fromkeys((*hosted, *run.members.servers))
        found = {member: Held.read(self._site.held_path(member)) for member in (*beside, *actors)}
        there = {member: held.data for member, held in found.items() if held and held.data}
        taking_part = (*beside, *actors[: len(run.actors)])
        states = States(books, tuple(there), there, version=VERSION, apart=True)
        return Snapshot(msgspec.msgpack.encode(states), tuple(_lost(taking_part, found)))


def _lost(members: Sequence[Member], found: Mapping[Member, Held | None]) -> list[str]:
    silent = Held()
    lost = [(member, held) for member in members if not (held := found[member] or silent).data]
    return [
        f"{member} starts again: {held.why}" if held.why else _SILENT.format(member)
        for member, held in lost
    ]
