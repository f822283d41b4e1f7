"""Which members are there, and what they wait for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from artos.buffer.mailbox import LEARNER, actor_member, actor_of
from artos.protocol.invocations import Invoke
from head.run.coordination.books import Invocations
from head.run.coordination.outline import Outline
from head.run.coordination.ports import Ports


class Roster:
    """The members of a run: those wanted, started, ready or down, and what each of them lacks.

    A member is ready once it has reported so since it was last started, parked or not. Actors 0 to
    ``prepared`` - 1 have a process, or are to have one. Members that are ``down`` are sent what
    they are asked for once they have been restarted; the run goes on without those that are
    ``gone``.
    """

    def __init__(self, outline: Outline, ports: Ports) -> None:
        self._outline, self._ports = outline, ports
        self._processes, self._clock = ports.processes, ports.clock
        self.prepared = 0
        self.down: set[int] = set()
        self.gone: set[int] = set()
        self._started: dict[int, float] = {}
        self._wanted: dict[int, float] = {}
        self._ready: set[int] = set()
        self._lacking: dict[int, str] = {}

    # -- who is there --------------------------------------------------------------------------

    def started(self, member: int, within: float = 0.0) -> None:
        """The member is being started, to be ready in so many seconds or as soon as it can be."""
        now = self._clock.now()
        self._started[member], self._wanted[member] = now, now + within

    def hurry(self, member: int, within: float) -> None:
        """A member that is being started is wanted in so many seconds from now."""
        if member not in self._ready and member in self._started:
            self._wanted[member] = self._clock.now() + within
            self._processes.prepare(member, within)

    def ready(self, member: int) -> float | None:
        """The member reported that it is set up; returns the seconds since it was started.

        None if it was ready before: its process manager has restarted it without being asked.
        """
        if member in self._ready:
            return None
        self._ready.add(member)
        now = self._clock.now()
        return now - self._started.get(member, now)

    def lost(self, member: int) -> None:
        """The member's process is gone."""
        self._ready.discard(member)
        self._started.pop(member, None)
        self._wanted.pop(member, None)
        self._lacking.pop(member, None)

    def is_ready(self, member: int) -> bool:
        """Whether the member has reported that it is set up."""
        return member in self._ready

    def takes_part(self, member: int) -> bool:
        """Whether the member is the learner, or an actor that is prepared."""
        return member == LEARNER or member <= self.prepared

    def all_ready(self, actors: range) -> bool:
        """Whether the learner and these actors are ready."""
        return LEARNER in self._ready and self.first_missing(len(actors)) == len(actors)

    def first_missing(self, actors: int) -> int:
        """The first of so many actors that is not ready; their number if all are."""
        missing = (a for a in range(actors) if actor_member(a) not in self._ready)
        return next(missing, actors)

    def late(self, seconds: float) -> Iterator[int]:
        """Members that should have been ready more than ``seconds`` ago and are not."""
        now = self._clock.now()
        for member, wanted in self._wanted.items():
            if member not in self._ready and now - wanted > seconds:
                yield member

    # -- what they wait for --------------------------------------------------------------------

    def told(self, member: int, what: str) -> None:
        """The member says that it waits for ``what``, which it cannot help; "": no longer."""
        self._lacking.pop(member, None)
        if what:
            self._lacking[member] = what

    def lacks(self, member: int, call: Invoke) -> str:
        """What others have that the member needs for this, in words; "" if it lacks nothing."""
        if self._processes.waits_for_slot(member):
            return "a slot or its process"
        room = "room in its block" if self.waits_for_room(member, call) else ""
        return self._lacking.get(member, room)

    def waits_for_room(self, member: int, call: Invoke) -> bool:
        """Whether the learner still holds rows that this round of an actor would overwrite."""
        block = self._ports.blocks.get(actor_of(member))
        if block is None or not self._outline.waits_for_room:
            return False
        return block.free() < call.stop - block.written

    def anybody_works(
        self, invocations: Iterable[tuple[int, Invoke]], *, placed: bool = False,
        but_pulls: bool = False, but_waits: bool = False, but_late: bool = False,
    ) -> bool:  # fmt: skip
        """Whether a member goes on by itself with what it was asked for.

        That is not so while it waits for room in its block; but on other nodes rows under way may
        make that room. The evaluator does not count: neither learner nor actors wait for it.

        Args:
            invocations: what members have to answer.
            placed: those without a place to run do not work.
            but_pulls: nor do actors that only bind weights.
            but_waits: nor does the learner while it waits for what it ``told``. What it began has
                used rows, and is made again.
            but_late: nor do actors that wait for a slot, or are not ready.
        """
        in_place = self._ports.row_source.in_place
        return any(
            not (in_place and self.waits_for_room(member, call))
            and not (placed and self.unplaced(member))
            and not (but_pulls and member != LEARNER and not call.stop)
            and not (but_waits and member in self._lacking)
            and not (but_late and member != LEARNER and self._is_late(member))
            for member, call in invocations
            if member != self._outline.evaluator
        )

    def _is_late(self, member: int) -> bool:
        return member not in self._ready or self._processes.waits_for_slot(member)

    def unplaced(self, member: int) -> str:
        """What a member without a place to run waits for, in words; "" if it has one."""
        return self._processes.unplaced(member)

    # -- in words ------------------------------------------------------------------------------

    def name_of(self, member: int) -> str:
        """A member's name in messages and records."""
        if member == self._outline.evaluator:
            return "evaluator"
        return "learner" if member == LEARNER else f"actor {actor_of(member)}"

    def waits(
        self, actors: Iterable[int], version: int, invocations: Invocations
    ) -> dict[str, str]:
        """What each member waits for, in words; idle actors, for this version."""
        members = [LEARNER, *map(actor_member, actors)]
        if (evaluator := self._outline.evaluator) is not None and evaluator not in self.gone:
            members.append(evaluator)
        idle = {LEARNER: "rows", evaluator: "a version to evaluate"}
        return {
            self.name_of(m): self._wait_of(m, invocations.of(m), idle.get(m, f"version {version}"))
            for m in members
        }

    def _wait_of(self, member: int, calls: Sequence[Invoke], idle: str) -> str:
        if away := self.unplaced(member):
            return away
        if not self.is_ready(member):
            return "starting"
        if not calls:
            return idle
        return (
            self.lacks(member, calls[0]) or f"running {calls[0].method} (firing {calls[0].firing})"
        )

    def __repr__(self) -> str:
        return f"<Roster {len(self._ready)} ready, {self.prepared} actors prepared>"
