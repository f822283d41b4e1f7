"""The actor-learner loop of Code 20.2.1 as ARTOS runs it: tables, and members that do as told."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from named import LEARNER, acting
from numpy.typing import NDArray

from artos.buffer.model_block import ObjectSpec
from artos.clock import ManualClock
from artos.protocol.invocations import Done, Invoke, Ready
from artos.runs.plan import Plan
from artos.runs.run_memory import RunMemory
from artos.specs.keys import VERSION_KEY, ArraySpec, DataKey
from artos.specs.members import Member
from artos.specs.reference import Reference
from head.run.coordination.ports import Ports
from head.run.run import Run
from head.run.wiring import connect
from triggers import DataKeyTrigger, ObjectKeyTrigger
from triggers.base import Trigger
from triggers.engine import direct_passers
from triggers.journal import Journal, read
from triggers.table import Table
from triggers.verify.verifier import faults
from triggers.wiring import completed

ACTORS = 4


def table(sync: Trigger, max_lag: int | None) -> Table:
    """Weights are pulled when ``sync`` says so; every version is followed by a round."""
    return {
        "learner.update": DataKeyTrigger(("rewards",), n=ACTORS, size=1, max_lag=max_lag),
        "actors.sync": sync,
        "actors.sample": ObjectKeyTrigger("model_param"),
    }


def plan_of(wired: Table, rounds: int) -> tuple[Plan, Table]:
    """Four actors, rounds of one step; stops after ``rounds`` of them."""
    draft = Plan(
        reference=Reference("tests:lag"), name="lag", env="", seed=0, actors=ACTORS, envs=1,
        steps=1, capacity=0, on_full="wait", total_steps=ACTORS * rounds,
        data_keys=(DataKey("rewards"),),
        objects=(ObjectSpec.sized("model_param", [ArraySpec("params", (1,))], ACTORS + 1),),
        layout=(), triggers={target: trigger.encode() for target, trigger in wired.items()},
        methods={"actors": ("sample",), "learner": ("update",)},
    )  # fmt: skip
    plan, paced = completed(draft, wired)
    assert faults(plan, paced) == []
    return plan, paced


class Loop:
    """``Processes``: actors with a cached version, a learner that mints versions.

    Real blocks and a real model block; only acting and learning, which do not change the lag, are
    left out. ``ends`` holds the actors' versions at the end of each round, ``minted`` the
    learner's.
    """

    def __init__(self, node: RunMemory) -> None:
        self._node, self._queue = node, deque[tuple[Member, Invoke]]()
        self.passers = direct_passers(self._ask, (LEARNER, *acting(*range(ACTORS))))
        self.cached = [0] * ACTORS
        self.minted: list[int] = []
        self.ends: list[list[int]] = []
        self.pulls = 0

    def _ask(self, member: Member, call: Invoke) -> None:
        self._queue.append((member, call))

    def end(self, member: Member) -> None:
        raise AssertionError(f"{member} died")

    start = prepare = retire = end

    def run(self, coordinator: Run) -> None:
        coordinator.begin()
        for member in (LEARNER, *acting(*range(ACTORS))):
            coordinator.receive(member, Ready(0.0))
        self._publish(0, 0)
        coordinator.look(LEARNER)
        while not coordinator.finished:
            member, call = self._queue.popleft()
            coordinator.receive(
                member,
                self._learn(call) if member == LEARNER else self._act(member.rank, call),
            )
        self._end_of_round()

    def _act(self, actor: int, call: Invoke) -> Done:
        if call.bind:
            self.cached[actor] = self._node.weights.pin(actor).version
            self.pulls += 1
        if call.stop:
            block = self._node.blocks[actor]
            row = block.index(block.allocate(1, seconds=0.0))
            block.arrays["rewards"][row] = 1.0
            block.arrays[VERSION_KEY][row] = self.cached[actor]
            block.commit(call.stop)
        return Done(call.firing, self.cached[actor])

    def _learn(self, call: Invoke) -> Done:
        self._end_of_round()
        version = self._node.weights.version + 1
        self._publish(version, call.firing)
        return Done(call.firing, version)

    def _end_of_round(self) -> None:
        # Everyone acted with what it pulled after the last update, so that is what it held then.
        self.minted.append(self._node.weights.version)
        self.ends.append(list(self.cached))

    def _publish(self, version: int, firing: int) -> None:
        slot = self._node.weights.allocate()
        slot.arrays["params"][:] = version
        self._node.weights.commit(slot, version, firing)


class Result:
    """What one run measured. ``consumed[k]`` are the lags of the rows of update k + 1."""

    def __init__(self, coordinator: Run, loop: Loop, journal: Path) -> None:
        self.mean, self.largest = coordinator.monitor.lag.mean, coordinator.monitor.lag.largest
        self.rows_stale = coordinator.monitor.rows_stale
        self.bound, self.pulls = dict(coordinator.held), loop.pulls
        learned = [line for line in read(journal) if line.get("by") == "learner"]
        self.consumed_mean = [line["lag_mean"] for line in learned]
        self.consumed_max = [line["lag_max"] for line in learned]
        # The first entry is before round 1 and no round's.
        self.versions = loop.minted[1:]
        self.held = loop.ends[1:]

    @property
    def end_lags(self) -> NDArray[np.int64]:
        """Lag at the end of every round, after update and pull: (rounds, actors)."""
        return np.array(self.versions, np.int64)[:, None] - np.array(self.held, np.int64)


@contextmanager
def finished(
    sync: Trigger, rounds: int, folder: Path, max_lag: int | None = None
) -> Iterator[Result]:
    """A finished run of so many rounds."""
    wired, clock = table(sync, max_lag), ManualClock()
    plan, wired = plan_of(wired, rounds)
    path = folder / "journal.jsonl"
    journal = Journal(path)
    with RunMemory(plan, "lag", folder) as node:
        loop = Loop(node)
        coordinator = connect(plan, wired, Ports.of(node, loop, clock, journal))
        loop.run(coordinator)
        journal.close()
        yield Result(coordinator, loop, path)
    path.unlink()
