"""What a learner owns is saved and restored by itself, and published when it says so."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from artos import TorchLearner
from artos.buffer.model_block import ModelBlock, ObjectSpec
from artos.buffer.object_region import ObjectRegion
from artos.errors import NotFinite
from artos.learners.context import LearnerContext
from artos.learners.publisher import Publisher
from artos.protocol.invocations import Invoke
from artos.runtime.member import LearnerRole
from artos.specs.keys import ArraySpec


class Owner(TorchLearner):
    """A policy, a critic, its target, a temperature and a count."""

    def __init__(self, loss: float = 1.0) -> None:
        super().__init__(lr=0.1)
        self.weight = loss

    def setup(self, context: Any) -> None:
        super().setup(context)
        self.critic = self.own("critic", nn.Linear(2, 1), lr=0.1)
        self.target = self.own("target", copy.deepcopy(self.critic.module))
        self.temperature = self.own("temperature", torch.zeros(()), lr=0.1)
        self.count = self.own("count", torch.zeros(1))

    def update(self, batch: Any, call: Any) -> None:
        self.critic.step(self.critic(torch.ones(2)).sum())
        self.temperature.step(self.temperature() * 3)
        self.target.follow(self.critic, 0.5)
        for _ in range(2):
            self.step(self.module(torch.ones(2)).sum() * self.weight)
        self.count.values += 1

    def prepare(self, batch: Any, call: Any) -> None:
        self.critic.step(self.critic(torch.ones(2)).sum())


class ByItself(Owner):
    publishing = "itself"

    def prepare(self, batch: Any, call: Any) -> None:
        self.publish()


class EachStep(Owner):
    publishing = "step"


class Stage:
    """A learner on a model block, as its process would have it."""

    def __init__(self, learner: TorchLearner, folder: Path, seed: int = 0) -> None:
        self.learner, path = learner, folder / "model"
        plan: Any = SimpleNamespace(consumers=(), data_keys=())
        self._setup(plan, Publisher(), seed)
        arrays = [
            ArraySpec(name, tuple(value.shape), str(value.dtype).removeprefix("torch."))
            for name, value in learner.live().items()
        ]
        if not path.exists():
            ModelBlock.create(path, [ObjectSpec.sized("model_param", arrays, 1)])
        self.region: ObjectRegion = ModelBlock.attach(path)["model_param"]
        self._setup(plan, Publisher(weights=self.region), seed)
        self.role = LearnerRole(learner, self.region, {})

    def _setup(self, plan: Any, publish: Publisher, seed: int) -> None:
        torch.manual_seed(seed)
        self.learner.setup(LearnerContext(plan, nn.Linear(2, 1), 0, publish=publish))

    def call(self, method: str = "update") -> int:
        """The newest version afterwards."""
        return self.role.run(Invoke(7, f"learner.{method}", method)).version

    def live(self) -> dict[str, np.ndarray]:
        return {name: value.numpy().copy() for name, value in self.learner.live().items()}


def test_each_step_of_each_network_is_told_of() -> None:
    learner, steps = Owner(), list[str]()
    plan: Any = SimpleNamespace(consumers=(), data_keys=())
    told = partial(steps.append, "step")
    learner.setup(LearnerContext(plan, nn.Linear(2, 1), 0, stepped=told))
    learner.update(None, None)
    assert steps == ["step"] * 4  # the critic's, the temperature's, two of the policy's


def test_another_process_goes_on_with_everything(tmp_path: Path) -> None:
    first = Stage(Owner(), tmp_path)
    for _ in range(3):
        first.call()
    second = Stage(Owner(), tmp_path, seed=1)
    assert sorted(first.live()) == sorted(second.live())
    assert {"learner.critic.exp_avg", "learner.target.params", "learner.count.params"} < set(
        first.live()
    )
    for stage in (first, second):
        for name, value in first.live().items():
            np.testing.assert_array_equal(value, stage.live()[name], err_msg=name)
    wanted = [first.learner.update(None, None), first.live()][1]
    second.call()
    for name, value in wanted.items():
        np.testing.assert_array_equal(value, second.live()[name], err_msg=name)
    assert wanted["learner.count.params"] == 4


def test_a_snapshot_leaves_the_settings_that_are_others_now_as_they_are(tmp_path: Path) -> None:
    """What ``__init__`` set otherwise is meant: the step size, too, but not that of the critic."""
    before, same, other = (Owner(loss) for loss in (1.0, 1.0, 3.0))
    other.lr = 0.03
    stages = [Stage(each, tmp_path) for each in (before, same, other)]
    stages[0].call()
    for each in (before.network, before.critic):
        each.optimiser.lr = 0.07
    before.weight = 2.0
    taken = before.snapshot()
    for each in (same, other):
        each.go_on(pickle.loads(pickle.dumps(taken)))
    assert [same.weight, other.weight] == [2.0, 3.0]
    assert [same.lr, other.lr] == [0.1, 0.03]
    rates = [[n.optimiser.lr for n in (each.network, each.critic)] for each in (same, other)]
    assert rates == [[0.07, 0.07], [0.03, 0.07]]
    assert other.snapshot()["made_with"] != taken["made_with"], "the next part compares with this"


def test_another_step_size_holds_from_the_next_step_on(tmp_path: Path) -> None:
    stage = Stage(Owner(), tmp_path)
    assert [each.name for each in stage.learner.changeable] == ["lr"]
    rates = [stage.learner.network.optimiser.lr]
    for settings in ({"lr": 0.5}, {"lr": 0.0625}):
        stage.role.run(Invoke(7, "learner.update", "update", settings=settings))
        rates.append(stage.learner.network.optimiser.lr)
    assert rates[1:] == [0.5, 0.0625]
    assert stage.learner.lr == 0.0625, "what a learner anneals from"


def test_an_update_in_which_anything_stepped_is_a_version(tmp_path: Path) -> None:
    stage = Stage(Owner(), tmp_path)
    assert [stage.call(), stage.call("prepare"), stage.call()] == [1, 2, 3]
    assert stage.region.made_by() == (3, 7)


def test_a_learner_may_say_itself_when_it_publishes(tmp_path: Path) -> None:
    stage = Stage(ByItself(), tmp_path)
    assert [stage.call(), stage.call(), stage.call("prepare"), stage.call()] == [0, 0, 1, 1]
    assert stage.region.newest.arrays["learner.count.params"] == 2


def test_each_step_can_be_a_version(tmp_path: Path) -> None:
    stage = Stage(EachStep(), tmp_path)
    assert [stage.call(), stage.call("prepare"), stage.call()] == [2, 2, 4]
    # Only an invocation's end counts as its end, or a crash would skip what was left of it.
    assert stage.region.made_by() == (4, 0)


@pytest.mark.parametrize("kind", [Owner, EachStep])
def test_weights_that_are_not_finite_are_not_published(kind: type[Owner], tmp_path: Path) -> None:
    stage = Stage(kind(float("nan")), tmp_path)
    with pytest.raises(NotFinite, match="a weight"):
        stage.call()
    assert stage.region.version == 0
    assert np.isfinite(stage.region.newest.arrays["params"]).all()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"name": "critic"}, "the name of another"),
        ({"name": "new", "lr": 0.1, "optimiser": object()}, "two optimisers"),
    ],
)
def test_what_is_owned_has_one_name_and_one_optimiser(
    given: dict[str, Any], says: str, tmp_path: Path
) -> None:
    stage = Stage(Owner(), tmp_path)
    with pytest.raises(ValueError, match=says):
        stage.learner.own(module=nn.Linear(1, 1), **given)
