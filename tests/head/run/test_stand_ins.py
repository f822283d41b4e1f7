"""A coordinator in one process, without a plan: two actors and a learner play a bandit."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec, Consumer
from artos.buffer.model_block import ModelBlock, ObjectSpec
from artos.protocol.invocations import Done, Invoke
from artos.specs.keys import VERSION_KEY, ArraySpec, DataKey
from artos.specs.members import Member
from artos.system.exit_report import ExitReport
from head.run.coordination.concern import Concern
from head.run.coordination.coordinator import Coordinator
from head.run.coordination.stand_ins import InProcess, in_one_process
from triggers import DataKeyTrigger, ObjectKeyTrigger
from triggers.table import Table

KEYS, ACTORS, STEPS, UPDATES = ("actions", "rewards"), 2, 16, 20
ARMS, BEST = 4, 2


class Bandit:
    """Blocks, weights, and the functions that act and learn."""

    def __init__(self, folder: Path) -> None:
        self.blocks = {
            actor: ActorBlock.create(folder / f"actor-{actor}", self._spec(actor))
            for actor in range(ACTORS)
        }
        weights = ObjectSpec.sized("model_param", (ArraySpec("params", (ARMS,)),), ACTORS + 1)
        self.model = ModelBlock.create(folder / "model", [weights])["model_param"]
        self.weights, self.random = np.zeros(ARMS, np.float32), np.random.default_rng(1)
        self.rewards: list[float] = []
        self.publish(0)

    def _spec(self, actor: int) -> BlockSpec:
        keys = (DataKey("actions", (), "int64"), DataKey("rewards", ()))
        return BlockSpec(actor, keys, 2 * STEPS, 1, (Consumer("learner.update", KEYS),))

    def publish(self, firing: int) -> None:
        slot = self.model.allocate()
        slot.arrays["params"][:] = self.weights
        self.model.commit(slot, self.model.version + 1, firing)

    def sample(self, actor: int, call: Invoke) -> Done:
        block, slot = self.blocks[actor], self.model.pin(actor)
        odds = np.exp(slot.arrays["params"])
        start = block.allocate(call.stop - block.written)
        for step in range(start, call.stop):
            row, arm = block.index(step), self.random.choice(ARMS, p=odds / odds.sum())
            block.arrays["actions"][row], block.arrays["rewards"][row] = arm, arm == BEST
            block.arrays[VERSION_KEY][row] = slot.version
        block.commit(call.stop)
        return Done(call.firing, slot.version)

    def update(self, call: Invoke) -> Done:
        arms, rewards = (self._column(key, call) for key in KEYS)
        odds = np.exp(self.weights) / np.exp(self.weights).sum()
        better = (rewards - rewards.mean())[:, None]
        self.weights += 4.0 * np.mean(better * (np.eye(ARMS)[arms.astype(int)] - odds), 0)
        self.rewards.append(float(rewards.mean()))
        self.publish(call.firing)
        return Done(call.firing, self.model.version)

    def _column(self, key: str, call: Invoke) -> Any:
        views = (self.blocks[c.actor].views(key, c.start, c.stop) for c in call.claims)
        return np.concatenate([view for each in views for view in each]).ravel()

    @property
    def members(self) -> InProcess:
        actors = {Member("actors", a): partial(self.sample, a) for a in self.blocks}
        return InProcess({Member("learner"): self.update, **actors})


class Budget(Concern[Coordinator]):
    def invoked(self, member: Member, call: Invoke) -> None:
        if self.run.progress.begun() >= UPDATES:
            self.run.ending.end("updates", updates=True)


class Deadly(Concern[Coordinator]):
    """Kills actor 0 whenever it was asked to sample, and starts it again."""

    left = 3

    def invoked(self, member: Member, call: Invoke) -> None:
        if member == Member("actors", 0) and self.left:
            self.left -= 1
            self.run.died(member, ExitReport("killed", own=False))

    def failed(self, member: Member, death: ExitReport) -> None:
        for call in self.run.invocations.of(member):
            self.run.ports.processes.passers[member].pass_message(call)


def table() -> Table:
    return {
        "learner.update": DataKeyTrigger(KEYS, n=ACTORS, size=STEPS),
        "actors.sample": ObjectKeyTrigger("model_param"),
    }


def test_a_bandit_is_learned_in_one_process(tmp_path: Path) -> None:
    bandit = Bandit(tmp_path)
    members = bandit.members
    run = in_one_process(table(), bandit.blocks, bandit.model, members, STEPS, [Budget])
    members.run(run)
    assert run.finished
    assert len(bandit.rewards) == run.progress.updates == run.version == UPDATES
    assert bandit.rewards[0] < 0.5 < 0.9 < bandit.rewards[-1]
    assert run.progress.consumed == UPDATES * ACTORS * STEPS


def test_no_row_is_lost_with_a_member(tmp_path: Path) -> None:
    bandit = Bandit(tmp_path)
    members = bandit.members
    run = in_one_process(table(), bandit.blocks, bandit.model, members, STEPS, [Budget, Deadly])
    members.run(run)
    assert len(bandit.rewards) == UPDATES
    assert run.progress.consumed == UPDATES * ACTORS * STEPS
