"""A coordinator with nothing around it: members are functions, and nothing is recorded.

For examples and tests. A run's own members are processes, and its concerns those of ``connect``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from artos.buffer.actor_block import ActorBlock
from artos.buffer.object_region import ObjectRegion
from artos.clock import Clock, SystemClock
from artos.protocol.invocations import Done, Invoke, Ready
from artos.specs.members import ACTORS, LEARNER, Member, Members
from head.run.coordination.concern import NOTHING, Concern
from head.run.coordination.coordinator import Coordinator
from head.run.coordination.outline import Outline
from head.run.coordination.ports import Ports
from head.run.coordination.rows import Commits
from triggers.base import Trigger
from triggers.engine import direct_passers
from triggers.events import Firing, Learned
from triggers.targets import parsed


class NoJournal:
    """Records nothing. Implements ``JournalWriter``."""

    cause = ""

    def fired(self, now: float, firing: Firing) -> None:
        """Do nothing."""

    def take_back(self, firing: int) -> None:
        """Do nothing."""

    def done(
        self, now: float, firing: int, member: str, *, seconds: float = 0.0, **facts: Any
    ) -> None:
        """Do nothing."""

    def ready(self, now: float, member: str, ready: Ready, seconds: float | None) -> None:
        """Do nothing."""

    def died(self, now: float, member: str, step: int, why: str, **facts: Any) -> None:
        """Do nothing."""

    def limited(self, now: float, why: str) -> None:
        """Do nothing."""

    def scaled(self, now: float, actors: int, before: int, version: int) -> None:
        """Do nothing."""

    def write(self, line: dict[str, Any]) -> None:
        """Do nothing."""


class InProcess:
    """Members that are functions of this process, called one at a time. Implements ``Processes``.

    ``members`` carry out the invocations of each.
    """

    def __init__(self, members: Mapping[Member, Callable[[Invoke], Done]]) -> None:
        self._members, self._queue = members, deque[tuple[Member, Invoke]]()
        self.passers = direct_passers(self._ask, members)

    def _ask(self, member: Member, call: Invoke) -> None:
        self._queue.append((member, call))

    def run(self, coordinator: Coordinator) -> None:
        """Carry out one invocation after the other until the run is over or nobody is asked."""
        coordinator.begin()
        for member in self._members:
            coordinator.receive(member, Ready(0.0))
            coordinator.look(member)
        while self._queue and not coordinator.finished:
            member, call = self._queue.popleft()
            coordinator.receive(member, self._members[member](call))
            coordinator.tick()

    def waits_for_slot(self, member: Member) -> bool:
        """False: there are no slots."""
        return False

    def unplaced(self, member: Member) -> str:
        """Return "": all of them are here."""
        return ""

    def end(self, member: Member) -> None:
        """Forget what the member was asked for."""
        self._queue = deque(entry for entry in self._queue if entry[0] != member)

    def start(self, member: Member) -> None:
        """Do nothing: a function need not be started."""

    def prepare(self, member: Member, within: float = 0.0) -> None:
        """Do nothing: a function need not be prepared."""

    def retire(self, member: Member) -> None:
        """Do nothing: a function holds nothing."""


class Plain(Concern[Coordinator]):
    """Serves each firing in the plainest way: the learner is handed its rows, actors get rounds."""

    def admits(self, firing: Firing) -> bool:
        """No more rounds once a concern has ended the run."""
        return self.run.ending.samples or not parsed(firing.trigger).samples

    def learn(self, firing: Firing) -> None:
        """A trigger of the learner fired: hand it the rows that were claimed."""
        if self.run.admits(firing):
            target, claims = firing.trigger, firing.claims
            call = Invoke(firing.number, target, parsed(target).method, claims)
            self.run.invoke(Member(LEARNER), call)
            self.run.claims.claim(target, claims)

    def sample(self, firing: Firing) -> None:
        """A trigger of the actors fired: grant them rounds, to be sampled with newest weights."""
        target, actors = firing.trigger, self.run.actors if firing.actors is None else firing.actors
        for actor in (actor for _ in range(firing.rounds) for actor in actors):
            if self.run.admits(firing) and (stop := self.run.rounds.grant(actor)) is not None:
                call = Invoke(firing.number, target, parsed(target).method, stop=stop)
                self.run.invoke(Member(ACTORS, actor), call)

    def answered(self, member: Member, call: Invoke, done: Done) -> Mapping[str, Any]:
        """The learner is done with its rows, which makes room for others."""
        if self.run.members.role(member).publishes:
            for claim in call.claims:
                used = self.run.claims.done(call.trigger, claim)
                self.run.ports.blocks[claim.actor].acknowledge(call.trigger, *used)
            self.run.feed(Learned(call.trigger))
        return NOTHING


def in_one_process(
    table: Mapping[str, Trigger], blocks: Mapping[int, ActorBlock], model: ObjectRegion,
    members: InProcess, steps: int, concerns: Sequence[type[Concern[Coordinator]]] = (),
    clock: Clock | None = None,
) -> Coordinator:  # fmt: skip
    """A coordinator of these members, all of whose actors take part.

    Args:
        table: triggers by target, ``learner.METHOD`` and ``actors.METHOD``.
        blocks: the actors' blocks, by actor.
        model: the weights; a version must have been published before the run begins.
        members: learner and actors.
        steps: rows of a round.
        concerns: what else follows the run.
        clock: the time; by default that of the machine.
    """
    rows, clock = Commits(blocks, shipped=False), clock or SystemClock()
    ports = Ports(blocks, model, {}, members, clock, NoJournal(), rows)
    run = Coordinator(Outline(steps, members=Members.of_run(len(blocks))), ports)
    run.actors = range(len(blocks))
    plain = Plain(run)
    destinations = {LEARNER: plain.learn, ACTORS: plain.sample}
    run.wire(table, destinations, [*(concern(run) for concern in concerns), plain])
    return run
