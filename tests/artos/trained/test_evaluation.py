"""Which episodes count: a number fixed beforehand for each environment, whoever is quick."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from spaces_for_tests import ACTIONS, BOX, DISCRETE, FLAT, VECTOR, spec_with

from artos.envs.serial import SerialVectorEnv
from artos.envs.spec import EnvSpec, Part
from artos.envs.stepper import Stepper
from artos.errors import DeadlineExceeded
from artos.trained.evaluation import Evaluation, misfits, play


class Fixed(gym.Env[Any, Any]):
    """Episodes of ``length`` steps, each with reward ``length``; 0: they never end."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length: int) -> None:
        self.length, self.at = length, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.at = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.at += 1
        return np.zeros(1, np.float32), float(self.length), self.at == self.length, False, {}


def made(kind: str, lengths: list[int]) -> Stepper:
    makers = [lambda length=length: Fixed(length) for length in lengths]
    if kind == "serial":
        return Stepper(SerialVectorEnv(makers))
    return Stepper(SyncVectorEnv(makers, autoreset_mode=AutoresetMode[kind]))


def played(stepper: Stepper, episodes: int, **options: Any) -> tuple[list[float], list[int]]:
    act = lambda obs: np.zeros(len(obs["observations"]), np.int64)  # noqa: E731
    told = {"deadline": 60.0, "note": lambda done, steps: None, "see": lambda step: None}
    return play(stepper, act, episodes, 1, **(told | options))


@pytest.mark.parametrize("kind", ["serial", *AutoresetMode.__members__])
@pytest.mark.parametrize("episodes", [1, 2, 3, 4, 7, 12])
def test_short_episodes_are_not_favoured(kind: str, episodes: int) -> None:
    """Taking the first to end would take those of 2 steps only."""
    lengths = [2, 40, 7]
    stepper = made(kind, lengths)
    returns, found = played(stepper, episodes)
    stepper.close()
    assert found == [lengths[k % 3] for k in range(episodes)]
    assert returns == [float(length * length) for length in found]


def test_progress_is_told_after_every_step() -> None:
    stepper, told = made("serial", [2, 3]), []
    played(stepper, 3, note=lambda done, steps: told.append((done, steps)))
    assert told == [(0, 2), (1, 4), (2, 6), (3, 8)]


def test_an_episode_that_never_ends_is_given_up() -> None:
    with pytest.raises(DeadlineExceeded, match="if it has no time limit, this policy may never"):
        played(made("serial", [2, 0]), 2, deadline=0.05)


def test_what_is_reported() -> None:
    found = Evaluation(env="x", seed=3, greedy=True, returns=(1.0, 3.0, 8.0), lengths=(1, 2, 6),
                       environments=2)  # fmt: skip
    assert found.mean_return == 4.0
    assert found.std == pytest.approx(np.std([1, 3, 8]))
    told = found.plain()
    assert (told["mean_return"], told["episodes"], told["mean_length"]) == (4.0, 3, 3.0)
    assert (told["returns"], told["seed"], told["greedy"]) == ((1.0, 3.0, 8.0), 3, True)


def with_part(**changes: Any) -> EnvSpec:
    facts = {"name": "observations", "shape": (5,), "dtype": "float32"} | changes
    return spec_with(DISCRETE, Part(**facts))


@pytest.mark.parametrize(
    ("theirs", "told"),
    [
        (spec_with(DISCRETE, VECTOR), []),
        (with_part(low=-1.0, high=1.0), []),
        (with_part(shape=(6,)), ["test shows float32[6] as observations, test showed float32[5]"]),
        (with_part(dtype="int64", sizes=(2,) * 5), ["int64[5] of (2, 2, 2, 2, 2)"]),
        (spec_with(BOX, VECTOR), ["takes actions ('box', (2, 1), ())"]),
        (spec_with(ACTIONS[1], *FLAT), ["shows nothing as observations,", "shows int64[2]",
         "shows float32[2, 3]", "shows uint8[6]", "shows int64[] of (7,)", "takes actions"]),
    ],
)  # fmt: skip
def test_environments_that_a_policy_cannot_play(theirs: EnvSpec, told: list[str]) -> None:
    found = list(misfits(spec_with(DISCRETE, VECTOR), theirs))
    assert len(found) == len(told)
    for words in told:
        assert any(words in line for line in found)
