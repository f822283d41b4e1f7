"""A workload whose number of actors changes: members that do as told, in any order."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from named import LEARNER

from artos.buffer.model_block import ObjectSpec
from artos.clock import ManualClock
from artos.learners.publisher import Publisher
from artos.protocol.invocations import Claim, Done, Invoke, Ready
from artos.runs.plan import Plan
from artos.runs.run_memory import RunMemory
from artos.specs.actor_count import Actors
from artos.specs.elastic import Elastic, Park
from artos.specs.keys import VERSION_KEY, ArraySpec, DataKey, ObjectKey
from artos.specs.members import ACTORS, Member
from artos.specs.reference import Reference
from artos.system.exit_report import ExitReport
from head.run.coordination.ports import Ports
from head.run.run import Run
from head.run.wiring import connect
from triggers import DataKeyTrigger, ObjectKeyTrigger
from triggers.engine import direct_passers
from triggers.journal import Journal
from triggers.pacing import hands_over_episodes, parts_of
from triggers.table import Table
from triggers.targets import parsed
from triggers.verify.verifier import faults
from triggers.wiring import completed

NOISE, ENDS = "noise_scale", ("terminations", "truncations")
STEPS = 4
SECONDS = 0.5
"""How long a round and an update are said to take."""


def plan_of(
    scaling: Actors, table: Table, rounds: int, capacity: int = 0, updates: int = 0,
    park: Park = "auto",
) -> tuple[Plan, Table]:  # fmt: skip
    """Rounds of four steps; stops once ``rounds`` rounds (summed over the actors) are sampled.

    With ``updates`` it also stops after so many; 0 is no limit.
    """
    most, drawn = scaling.most, any(part.draw for part in parts_of(table))
    marks = (DataKey("valid", (), "bool"), DataKey("ages", (), "uint8")) if drawn else ()
    if hands_over_episodes(table):
        marks = (DataKey("ages", (), "uint8"),)
    learned = tuple({"update": 0} | {t.method: 0 for t in map(parsed, table) if t.learns})
    draft = Plan(
        reference=Reference("tests:elastic"), name="elastic", env="", seed=0, actors=most, envs=1,
        steps=STEPS, capacity=capacity, on_full="overwrite" if drawn else "wait",
        total_steps=rounds * STEPS, data_keys=(DataKey("rewards"), *map(DataKey, ENDS), *marks),
        objects=(
            ObjectSpec.sized("model_param", [ArraySpec("params", (1,))], most + 1),
            ObjectSpec.sized(NOISE, [ArraySpec("value", (), "float64")], 1),
        ),
        layout=(), triggers={target: trigger.encode() for target, trigger in table.items()},
        methods={"actors": ("sample",), "learner": learned}, scaling=scaling,
        total_updates=updates, elastic=Elastic(park=park),
    )  # fmt: skip
    plan, paced = completed(draft, table)
    assert faults(plan, paced) == []
    return plan, paced


def who(member: Member) -> int | Member:
    """An actor by its number, as journals and claims name it; others by their name."""
    return member.rank if member.role == ACTORS else member


class Troupe:
    """``Processes`` on real blocks: acts out what is asked, in an order by ``seed``.

    ``used`` has the claims of every update, ``lags`` those of the rows used, ``held`` the version
    that each round was sampled with. Whoever is in ``sleepers`` does not become ready.
    """

    def __init__(self, node: RunMemory, seed: int) -> None:
        self._node, self._random = node, random.Random(seed)
        self.publish_object = Publisher([ObjectKey(NOISE)], node.objects)
        self._queues: dict[Member, deque[Invoke]] = {}
        self.passers = direct_passers(self._ask, node.site.members)
        self._starting: list[Member] = []
        self._up = {LEARNER, *(Member(ACTORS, a) for a in range(node.plan.at_work.first))}
        self._set_up = set(self._up)
        self._version_of: dict[int, int] = {}
        self.sleepers: set[Member] = set()
        self.without_slot: set[Member] = set()
        self.without_place: set[Member] = set()
        self.used: list[tuple[Claim, ...]] = []
        self.lags: list[int] = []
        self.said: list[tuple[str, int | Member]] = []
        self.within: dict[int | Member, list[float]] = {}
        self.coordinator: Run
        self.clock: ManualClock

    # -- Processes ----------------------------------------------------------------------------

    def _ask(self, member: Member, call: Invoke) -> None:
        assert member in self._up, f"{member} was sent work and never prepared"
        self._queues.setdefault(member, deque()).append(call)

    def waits_for_slot(self, member: Member) -> bool:
        return member in self.without_slot

    def unplaced(self, member: Member) -> str:
        return "a node with a free slot" if member in self.without_place else ""

    def prepare(self, member: Member, within: float = 0.0) -> None:
        if member in self._up:
            assert member not in self._set_up, "prepared twice"
        else:
            self._up.add(member)
            self.said.append(("prepare", who(member)))
            if member not in self._set_up:
                self._starting.append(member)
        self.within.setdefault(who(member), []).append(within)

    def retire(self, member: Member) -> None:
        self._up.remove(member)
        self.said.append(("retire", who(member)))

    def end(self, member: Member) -> None:
        self.said.append(("end", who(member)))
        self._queues.pop(member, None)
        self._set_up.discard(member)
        self._starting = [other for other in self._starting if other != member]

    def start(self, member: Member) -> None:
        self.said.append(("start", who(member)))
        self._starting.append(member)

    # -- acting it out -------------------------------------------------------------------------

    def begin(self) -> None:
        """Everybody who takes part is ready, and the first version is there."""
        self.coordinator.begin()
        for member in sorted(self._up, key=self._node.site.members.number):
            self.coordinator.receive(member, Ready(0.0))
        self._publish(0, 0)
        self.coordinator.look(LEARNER)

    def run(self, updates: int | None = None) -> None:
        """One thing after the other, until the run is finished or so many updates were made."""
        while not self.coordinator.finished:
            if updates is not None and len(self.used) >= updates:
                return
            self.step()

    def step(self) -> None:
        """Somebody who can does the next thing."""
        awake = [member for member in self._starting if member not in self.sleepers]
        busy = [member for member, queue in self._queues.items() if queue and self._can(member)]
        assert awake or busy, f"nobody can do anything: {self.coordinator.waits()}"
        member = self._random.choice(awake + busy)
        if member in awake:
            self.wake(who(member))
            return
        call = self._queues[member].popleft()
        done = self._learn(call) if member == LEARNER else self._act(who(member), call)
        self.coordinator.receive(member, done)

    def _can(self, member: Member) -> bool:
        if member == LEARNER or member in self._starting:
            return member == LEARNER
        block = self._node.blocks[member.rank]
        if self._node.plan.on_full == "overwrite":
            return True
        return block.free() >= self._queues[member][0].stop - block.written

    def wake(self, actor: int | Member) -> None:
        """This actor, or other member, becomes ready now."""
        member = actor if isinstance(actor, Member) else Member(ACTORS, actor)
        self._starting.remove(member)
        self._set_up.add(member)
        self.coordinator.receive(member, Ready(0.0, start="clone"))

    def kill(self, actor: int) -> None:
        """This actor dies now."""
        self.coordinator.died(Member(ACTORS, actor), ExitReport("killed", own=False))

    def act_and_die(self, actor: int) -> None:
        """This actor commits a round and dies before it can report."""
        self._act(actor, self._queues[Member(ACTORS, actor)].popleft())
        self.kill(actor)

    def _act(self, actor: int | Member, call: Invoke) -> Done:
        assert not isinstance(actor, Member)
        if call.bind or actor not in self._version_of:
            self._version_of[actor] = self._node.weights.pin(actor).version
        version, block = self._version_of[actor], self._node.blocks[actor]
        for _ in range(call.stop - block.written):
            row = block.index(block.allocate(1, seconds=0.0))
            block.arrays["rewards"][row] = 1.0
            block.arrays[VERSION_KEY][row] = version
            block.commit(block.written + 1)
        return Done(call.firing, version, seconds=SECONDS)

    def _learn(self, call: Invoke) -> Done:
        self.used.append(call.claims)
        version = self._node.weights.version
        for claim in call.claims:
            for view in self._node.blocks[claim.actor].views(VERSION_KEY, claim.start, claim.stop):
                self.lags += [version - int(row) for row in view.ravel()]
        for name, value in self.objects(len(self.used)).items():
            self.publish_object(name, value)
        self._publish(version + 1, call.firing)
        metrics, times = self.metrics(len(self.used)), {"gather": SECONDS / 4}
        return Done(call.firing, version + 1, metrics, times, seconds=SECONDS)

    def metrics(self, update: int) -> dict[str, float]:
        """What the learner reports of an update; tests replace it."""
        return {}

    def objects(self, update: int) -> dict[str, float]:
        """What the learner publishes beside the weights; tests replace it."""
        return {}

    def _publish(self, version: int, firing: int) -> None:
        slot = self._node.weights.allocate()
        slot.arrays["params"][:] = version
        self._node.weights.commit(slot, version, firing)

    # -- what came of it -----------------------------------------------------------------------

    @property
    def learned_from(self) -> list[list[int]]:
        """The actors whose rows each update used."""
        return [[claim.actor for claim in claims] for claims in self.used]

    def unused(self) -> dict[int, int]:
        """Rows of each actor that no update used; fails if one was used twice or skipped."""
        ends = dict.fromkeys(self._node.blocks, 0)
        for claim in (claim for claims in self.used for claim in claims):
            assert claim.start == ends[claim.actor], "rows go in order, each once"
            ends[claim.actor] = claim.stop
        return {actor: block.written - ends[actor] for actor, block in self._node.blocks.items()}


def full_batch(max_lag: int = 0) -> Table:
    """Every update takes a round of all actors there are."""
    return {
        "learner.update": DataKeyTrigger(("rewards",), size=STEPS, max_lag=max_lag),
        "actors.sample": ObjectKeyTrigger("model_param"),
    }


def fifo() -> Table:
    """Every update takes a round of one actor, whoever comes first."""
    return {
        "learner.update": DataKeyTrigger(("rewards",), n=1, size=STEPS),
        "actors.sample": ObjectKeyTrigger("model_param"),
    }


@contextmanager
def troupe(
    scaling: Actors, table: Table, rounds: int, folder: Path, seed: int = 0, capacity: int = 0,
    updates: int = 0, park: Park = "auto", kind: type[Troupe] | None = None, replicas: int = 1,
) -> Iterator[Troupe]:  # fmt: skip
    """A workload ready to begin, wired as a run is."""
    draft, paced = plan_of(scaling, table, rounds, capacity, updates, park)
    draft = msgspec.structs.replace(draft, replicas=replicas)
    clock, journal = ManualClock(), Journal(folder / "journal.jsonl")
    plan = msgspec.json.decode(msgspec.json.encode(draft), type=Plan)
    try:
        with RunMemory(plan, "elastic", folder) as node:
            members = (kind or Troupe)(node, seed)
            members.clock = clock
            ports = Ports.of(node, members, clock, journal)
            members.coordinator = connect(plan, paced, ports)
            yield members
    finally:
        journal.close()
