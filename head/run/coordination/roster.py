"""Which members are there, and what they wait for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from artos.protocol.invocations import Invoke
from artos.specs.members import ACTORS, Member
from head.run.coordination.books import Invocations
from head.run.coordination.outline import Outline
from head.run.coordination.ports import Ports

if TYPE_CHECKING:
    from artos.buffer.actor_block import ActorBlock


class Roster:
    """The members of a run: those wanted, started, ready or down, and what each of them lacks.

    A member is ready once it has reported so since it was last started, parked or not.
    """

    def __init__(self, outline: Outline, ports: Ports) -> None:
        self._outline, self._ports, self._members = outline, ports, outline.members
        self._processes, self._clock = ports.processes, ports.clock
        self.prepared = 0
        """Actors 0 to ``prepared`` - 1 have a process, or are to have one."""
        self.down: set[Member] = set()
        """Members that are sent what they are asked for once they have been restarted."""
        self.gone: set[Member] = set()
        """Members that the run goes on without."""
        self._started: dict[Member, float] = {}
        self._wanted: dict[Member, float] = {}
        self._ready: set[Member] = set()
        self._lacking: dict[Member, str] = {}

    # -- who is there --------------------------------------------------------------------------

    def started(self, member: Member, within: float = 0.0) -> None:
        """The member is being started, to be ready in so many seconds or as soon as it can be."""
        self._started[member] = now = self._clock.now()
        if member not in self._ready:  # else it is there, if only parked, and says no more
            self._wanted[member] = now + within

    def hurry(self, member: Member, within: float) -> None:
        """A member that is being started is wanted in so many seconds from now."""
        if member not in self._ready and member in self._started:
            self._wanted[member] = self._clock.now() + within
            self._processes.prepare(member, within)

    def ready(self, member: Member) -> float | None:
        """The member reported that it is set up; returns the seconds since it was started.

        None if it was ready before: its process manager has restarted it without being asked.
        """
        if member in self._ready:
            return None
        self._ready.add(member)
        now = self._clock.now()
        since = self._started.get(member, now)
        self._wanted.pop(member, None)
        self._makes_room(since)
        return now - since

    def _makes_room(self, since: float) -> None:
        """A node sets up few at once: the time of who was asked for later begins only now."""
        now = self._clock.now()
        for other, wanted in self._wanted.items():
            if self._started[other] > since:
                self._wanted[other] = max(wanted, now)

    def lost(self, member: Member) -> None:
        """The member's process is gone."""
        self._ready.discard(member)
        if self._wanted.pop(member, None) is not None:
            self._makes_room(self._started[member])
        self._started.pop(member, None)
        self._lacking.pop(member, None)

    def is_ready(self, member: Member) -> bool:
        """Whether the member has reported that it is set up."""
        return member in self._ready

    def takes_part(self, member: Member) -> bool:
        """Whether the run needs the member: any but actors that are not prepared."""
        return not self._members.role(member).samples or member.rank < self.prepared

    def all_ready(self, actors: range) -> bool:
        """Whether these actors are ready, and all other members that training needs."""
        others = (m for m in self._members.hosted if self._members.role(m).trains)
        return self._ready.issuperset(others) and self.first_missing(len(actors)) == len(actors)

    def first_missing(self, actors: int) -> int:
        """The first of so many actors that is not ready; their number if all are."""
        missing = (a for a in range(actors) if Member(ACTORS, a) not in self._ready)
        return next(missing, actors)

    def late(self, seconds: float) -> Iterator[Member]:
        """Members that should have been ready more than ``seconds`` ago and are not."""
        now = self._clock.now()
        for member, wanted in self._wanted.items():
            if now - wanted > seconds:
                yield member

    # -- what they wait for --------------------------------------------------------------------

    def told(self, member: Member, what: str) -> None:
        """The member says that it waits for ``what``, which it cannot help; "": no longer."""
        self._lacking.pop(member, None)
        if what:
            self._lacking[member] = what

    def block_of(self, member: Member) -> ActorBlock | None:
        """The block that the member writes rows to; None if it writes none."""
        samples = self._members.role(member).samples
        return self._ports.blocks.get(member.rank) if samples else None

    def lacks(self, member: Member, call: Invoke) -> str:
        """What others have that the member needs for this; "" if it lacks nothing."""
        if self._processes.waits_for_slot(member):
            return "a slot or its process"
        if self._members.role(member).samples:
            for server in self._members.servers:
                if server not in self._ready:
                    return f"{server}, which is being started"
        room = "room in its block" if self.waits_for_room(member, call) else ""
        return self._lacking.get(member, room)

    def waits_for_room(self, member: Member, call: Invoke) -> bool:
        """Whether the learner still holds rows that this round of an actor would overwrite."""
        block = self.block_of(member) if self._outline.waits_for_room else None
        return block is not None and block.free() < call.stop - block.written

    def anybody_works(
        self, invocations: Iterable[tuple[Member, Invoke]], *, placed: bool = False,
        but_pulls: bool = False, but_waits: bool = False, but_late: bool = False,
    ) -> bool:  # fmt: skip
        """Whether a member goes on by itself with what it was asked for.

        That is not so while it waits for room in its block; but on other nodes rows under way may
        make that room. Members that do not train do not count, as no one that does waits for them.

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
            and not (but_pulls and role.samples and not call.stop)
            and not (but_waits and member in self._lacking)
            and not (but_late and role.samples and self._is_late(member))
            for member, call in invocations
            if (role := self._members.role(member)).trains
        )

    def _is_late(self, member: Member) -> bool:
        return member not in self._ready or self._processes.waits_for_slot(member)

    def unplaced(self, member: Member) -> str:
        """What a member without a place to run waits for; "" if it has one."""
        return self._processes.unplaced(member)

    def waits(
        self, actors: Iterable[int], version: int, invocations: Invocations
    ) -> dict[str, str]:
        """What each member waits for; idle actors wait for this version."""
        learners = self._members.publishers
        hosted = dict.fromkeys((*self._members.hosted, *self._members.servers))
        members = (Member(ACTORS, actor) for actor in actors)
        others = (member for member in hosted if member not in learners)
        return {
            str(member): self._wait_of(
                member,
                invocations.of(self._members.together(member)[0]),
                self._members.role(member).idle.format(version=version),
            )
            for member in (*learners, *members, *others)
            if member not in self.gone
        }

    def _wait_of(self, member: Member, calls: Sequence[Invoke], idle: str) -> str:
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
