"""What a recurrent policy is told of the past: all of its episode, and nothing before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import Tensor, nn

from artos import ActInfo, ActorBlock, DataKey, Invoke, RolloutActor
from artos.actors.context import ActorContext
from artos.buffer.layout import BlockSpec
from artos.envs.spec import spec_of

ENVS, ROWS = 3, 40
CALL = Invoke(1, "actors.sample", "sample", progress=0.25)


class Aging(gym.Env[Any, Any]):
    """Observes how old its episode is; each is longer than the one before, and truncated."""

    observation_space = spaces.Box(0, 100, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.length = 2

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.length, self.age = self.length + 1 + (seed or 0) % 3, 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.age += 1
        return np.full(1, self.age, np.float32), 1.0, False, self.age == self.length, {}


class Counter(nn.Module):
    """Counts its steps, in a state of two kinds."""

    outputs = ("values", "seen")
    state = (DataKey("state.count", (2,)), DataKey("state.whole", (), "int64"))

    def __init__(self, spec: Any = None) -> None:
        super().__init__()
        self.told: list[ActInfo] = []

    def act(self, obs: dict[str, Tensor], info: ActInfo) -> dict[str, Tensor]:
        self.told.append(info)
        count, whole = info.state["state.count"], info.state["state.whole"]
        return {
            "actions": torch.zeros(len(count), dtype=torch.int64),
            "values": count[:, 0].clone(),
            "seen": obs["observations"][:, 0].clone(),
            "state.count": count + 1,
            "state.whole": whole + 1,
        }

    def value(self, obs: dict[str, Tensor], state: dict[str, Tensor]) -> Tensor:
        return 100 * obs["observations"][:, 0] + state["state.count"][:, 1]


@pytest.fixture(params=list(AutoresetMode), ids=lambda mode: mode.name)
def actor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RolloutActor]:
    """A set-up actor of environments that are reset in each way."""
    vector = SyncVectorEnv([Aging] * ENVS, autoreset_mode=request.param)
    made = RolloutActor("aging", Counter, ENVS)
    made.adopt(spec_of("aging", vector))
    made._vector = vector
    spec = BlockSpec(1, tuple(made.data_keys()), ROWS, ENVS, (), "overwrite")
    block = ActorBlock.create(tmp_path / "actor-1", spec)
    plan: Any = SimpleNamespace(seed=0, actors=4, objects=())
    made.setup(ActorContext(plan, 1, 0, block, 0))
    yield made
    made.close()


def test_rows_hold_the_state_before_the_step_and_bootstraps_see_the_one_after(
    actor: RolloutActor,
) -> None:
    block = actor._block
    for start in range(0, ROWS, 10):
        block.allocate(10)
        actor.sample(start, 10, CALL)
        block.commit(start + 10)
    arrays = block.arrays
    age = arrays["observations"][..., 0]
    # With next-step resets the row of a reset still shows the end of its episode.
    np.testing.assert_array_equal(arrays["state.whole"], age)
    np.testing.assert_array_equal(arrays["state.count"], np.stack((age, age), -1))
    np.testing.assert_array_equal(arrays["values"], age)
    np.testing.assert_array_equal(arrays["seen"], age)
    truncated = arrays["truncations"]
    assert truncated.sum() > ENVS
    wanted = np.where(truncated, 101 * (age + 1), 0)
    for last in range(9, ROWS, 10):
        wanted[last] = 101 * np.where(truncated[last], age[last] + 1, _following(arrays, last))
    np.testing.assert_array_equal(arrays["bootstraps"], wanted)


def _following(arrays: dict[str, Any], last: int) -> Any:
    """Ages after a row in which no episode ends; a row of a reset is followed by age 0."""
    reset = ~arrays["valid"][last] if "valid" in arrays else np.zeros(ENVS, bool)
    return np.where(reset, 0, arrays["observations"][last, :, 0] + 1)


def test_a_policy_knows_who_acts_and_how_far_the_run_is(actor: RolloutActor) -> None:
    actor._block.allocate(1)
    actor.sample(0, 1, CALL)
    told = actor._policy.module.told[-1]  # type: ignore[attr-defined]
    assert (told.actor, told.actors, told.progress, told.greedy) == (1, 4, 0.25, False)
