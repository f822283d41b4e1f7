"""The members of a simulated run: they take the time that was drawn for each invocation.

They stand where memory, journal and processes stand in a real run, so that its coordinator and its
triggers decide here as they do there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from artos.buffer.layout import BlockSpec
from artos.protocol.invocations import Done, Invoke, Ready
from artos.specs.keys import MODEL_PARAM, VERSION_KEY
from artos.specs.members import ACTORS, LEARNER, Member
from deploy.simulation.leases import Claimant, Gate, Leases, Turn
from deploy.simulation.timeline import Timeline
from deploy.simulation.workload import Workload
from head.run.coordination.coordinator import Coordinator
from head.run.coordination.ports import Ports
from head.run.coordination.rows import Rows
from triggers.data_key import DataKeyTrigger
from triggers.engine import direct_passers
from triggers.events import Arrived, Committed
from triggers.pacing import non_publishing_targets
from triggers.primitives import TransferTrigger
from triggers.replay import ReplayTrigger
from triggers.table import Table

Compute = Callable[[float, Callable[[], None]], None]


_NO_VALUES = BlockSpec(0, (), 1)


@dataclass(slots=True)
class _Block:
    """The rows of one actor: only their number and the version of the newest."""

    written: int = 0
    version: int = 0
    told: int = 0
    incarnation: int = 0
    spec: BlockSpec = _NO_VALUES

    def acknowledge(self, consumer: str, claimed: int, acknowledged: int) -> None:
        """Do nothing: there is always room."""


@dataclass(slots=True)
class _Weights:
    """The weights: only their version, and the firing that made it."""

    version: int = -1
    firing: int = 0
    spec: Any = field(default_factory=lambda: SimpleNamespace(name=MODEL_PARAM))

    def made_by(self) -> tuple[int, int]:
        """The newest version, and the firing that made it."""
        return self.version, self.firing


class _RowSource:
    """Makes the events that tell the triggers of new rows; see ``RowSource``.

    ``in_place`` is False as nobody waits for room here.
    """

    in_place = False

    def __init__(self, blocks: Mapping[int, _Block], table: Table) -> None:
        self._blocks, self._keys = blocks, [*_keys(table), VERSION_KEY]
        self._shipped = "transfer" in table

    def news(self, actor: int) -> tuple[int, list[Rows]]:
        """Each round is committed whole, under one version."""
        block = self._blocks[actor]
        if block.told == block.written:
            return block.written, []
        block.told = block.written
        written = dict.fromkeys(self._keys, block.written)
        events: list[Rows] = [Committed(actor, written, block.version)]
        if not self._shipped:
            events.append(Arrived(actor, written, block.version))
        return block.written, events

    def rewind(self, actor: int, term: int, rows: int) -> None:
        """Do nothing: no actor moves."""


def _keys(table: Table) -> dict[str, None]:
    """The data keys that a table names."""
    found: dict[str, None] = {}
    for part in (part for trigger in table.values() for part in trigger.parts()):
        match part:
            case DataKeyTrigger() | ReplayTrigger():
                found |= dict.fromkeys(part.keys)
            case TransferTrigger():
                found |= {key: None for stage in part.stages() for key in stage}
    return found


class _NoJournal:
    """Nothing is recorded."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


@dataclass(slots=True)
class _Member:
    """What a member has still to do."""

    calls: deque[Invoke] = field(default_factory=deque)
    leases: Leases | Gate | None = None
    starting: bool = False
    ready: bool = False
    busy: bool = False
    version: int = -1
    """That of the weights that it holds."""


class SimulatedMembers:
    """Learner and actors of one run. Implements ``Processes``.

    An actor computes while it has a slot of its node, the learner while it has a device; without
    ``devices`` it waits for none. ``compute`` has something done after so many seconds of a CPU;
    ``happened`` is called when a member is done.
    """

    def __init__(
        self, workload: Workload, table: Table, timeline: Timeline, devices: Leases | None,
        random: Random, claimants: Mapping[str, Claimant], compute: Compute,
        happened: Callable[[], None],
    ) -> None:  # fmt: skip
        self._workload, self._timeline, self._random = workload, timeline, random
        self._compute = compute
        self._claimants = {LEARNER: claimants["device"], ACTORS: claimants["slot"]}
        self._happened = happened
        self._silent = non_publishing_targets(workload.plan)
        self._blocks = {actor: _Block() for actor in range(workload.plan.actors)}
        self._weights = _Weights()
        self._rows = _RowSource(self._blocks, table)
        members = workload.plan.members
        self._learner = members.publisher
        self._members = {self._learner: _Member(leases=devices)}
        self._members |= {member: _Member() for member in members.of(ACTORS)}
        self.passers = direct_passers(self._invoke, self._members)
        self._coordinator: Coordinator | None = None
        self.updates, self._stopped = 0, False

    def ports(self) -> Ports:
        """What the run's coordinator works with."""
        return Ports(
            cast(Any, self._blocks), cast(Any, self._weights), {}, self, self._timeline.clock,
            cast(Any, _NoJournal()), self._rows,
        )  # fmt: skip

    # -- starting ------------------------------------------------------------------------------

    def begin(self, coordinator: Coordinator) -> None:
        """Start the learner; actors are started once they have a place."""
        self._coordinator = coordinator
        seconds = self._workload.starts.learner
        self._timeline.after(seconds, partial(self._up, self._learner, seconds))

    def place(self, actors: Mapping[int, Leases | Gate]) -> None:
        """These actors have a place, each with the slots of its node."""
        for actor, leases in actors.items():
            self._members[Member(ACTORS, actor)].leases = leases
        self.start_all()

    def start_all(self) -> None:
        """Start the actors that take part, have a place, and were not started before."""
        assert self._coordinator is not None
        for actor in self._coordinator.actors:
            self.prepare(Member(ACTORS, actor))

    def prepare(self, member: Member, within: float = 0.0) -> None:
        """Start it unless that was done before; without a place it has to wait for one."""
        del within
        state = self._members[member]
        if state.leases is not None and not state.starting:
            state.starting = True
            seconds = self._workload.starts.of_actor(member.rank)
            self._timeline.after(seconds, partial(self._up, member, seconds))

    def _up(self, member: Member, seconds: float) -> None:
        if self._stopped:
            return
        assert self._coordinator is not None
        if member == self._learner:
            self._weights.version = 0
            self._coordinator.look(member)
        self._members[member].ready = True
        self._coordinator.receive(member, Ready(seconds))
        self._next(member)
        self._happened()

    def stop(self) -> None:
        """Begin nothing any more; what is under way comes to nothing."""
        self._stopped = True

    # -- invocations ---------------------------------------------------------------------------

    def _invoke(self, member: Member, call: Invoke) -> None:
        self._members[member].calls.append(call)
        self._next(member)

    def _next(self, member: Member) -> None:
        state = self._members[member]
        if self._stopped or state.busy or not state.ready or not state.calls:
            return
        state.busy = True
        turn = Turn(self._claimants[member.role], member, self._work)
        if state.leases is None:
            turn.since = self._timeline.clock.now()
            self._work(turn)
        else:
            state.leases.request(turn)

    def _work(self, turn: Turn) -> None:
        state = self._members[turn.member]
        if self._stopped:
            self._free(turn)
            return
        call = state.calls[0]
        if call.bind:
            state.version = self._weights.version
        seconds = self._workload.seconds(call.trigger, self._random)
        self._compute(seconds, partial(self._worked, turn, seconds))

    def _worked(self, turn: Turn, seconds: float) -> None:
        member, state = turn.member, self._members[turn.member]
        assert self._coordinator is not None
        call = state.calls.popleft()
        self._free(turn)
        if self._stopped:
            return
        learned = member == self._learner
        if not learned and call.stop:
            block = self._blocks[member.rank]
            block.written, block.version = call.stop, state.version
        if learned and call.trigger not in self._silent:
            self.updates += 1
            if self.updates % self._workload.sync == 0:
                self._weights.version += 1
                self._weights.firing = call.firing
        version = self._weights.version if learned else state.version
        done = Done(call.firing, version, seconds=seconds, unread=learned)
        self._coordinator.receive(member, done)
        self._next(member)
        self._happened()

    def _free(self, turn: Turn) -> None:
        state = self._members[turn.member]
        if state.leases is not None:
            state.leases.release(turn)
        state.busy = False

    # -- what does not happen here ----------------------------------------------------------------

    def waits_for_slot(self, member: Member) -> bool:
        """Return False: no deadline passes."""
        return False

    def unplaced(self, member: Member) -> str:
        """Return "": nobody asks."""
        return ""

    def end(self, member: Member) -> None:
        """Do nothing: no member dies."""

    def start(self, member: Member) -> None:
        """Do nothing: no member is started again."""

    def retire(self, member: Member) -> None:
        """Do nothing: an actor without invocations holds no slot."""
