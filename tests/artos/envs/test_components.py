"""Environments that pay several rewards at once: each is stored, and their sum is learned from."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from paying_for_tests import LENGTH

from artos.envs.make import describe, make_vector
from artos.envs.stepper import Stepper
from artos.errors import ArtosError, Refused

THREE = "paying_for_tests:paying(components={'far': 1.0, 'cost': -0.5, 'late': 2.0})"


gym.register("Paying-v0", entry_point="paying_for_tests:Paying")


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)


def test_each_is_a_data_key_and_their_sum_is_the_reward() -> None:
    spec = describe(THREE)
    assert spec.components == ("far", "cost", "late")
    names = [key.name for key in spec.data_keys()]
    assert names[names.index("rewards") :][:4] == [
        "rewards", "rewards.far", "rewards.cost", "rewards.late"
    ]  # fmt: skip
    assert describe("Paying-v0(components={'a': 1, 'b': 1, 'c': 1})").components == ("a", "b", "c")


@pytest.mark.parametrize("autoreset", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_those_of_an_episodes_last_step_are_there_too(autoreset: AutoresetMode) -> None:
    """A row that only resets has none."""
    stepper = Stepper(make_vector(THREE, 2, autoreset=autoreset), autoreset=autoreset)
    stepper.reset(0)
    at = 0
    for number in range(9):
        actions = np.array([number % 4, 3])
        found = stepper.step(actions)
        assert found.components is not None
        waits = at == LENGTH and autoreset is AutoresetMode.NEXT_STEP
        at = 0 if waits else at % LENGTH + 1
        wanted = np.zeros((2, 3)) if waits else np.array([[at, action, 1] for action in actions])
        np.testing.assert_array_equal(found.components, wanted, str(number))
        np.testing.assert_allclose(found.rewards, wanted @ [1.0, -0.5, 2.0])
    assert stepper.drain_episodes()[0][1] == pytest.approx(1 + 2 + 3 - 0.5 * 9 + 2 * 3)
    stepper.close()


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ("paying_for_tests:paying", '--env-arg \'components={"reward_0": 1.0, "reward_1": 1.0, '),
        ("Paying-v0", "LinearReward"),
        ("paying_for_tests:paying(components={'a': 1.0})", "names 1 rewards .a., and reward_space"),
        ("CartPole-v1(components={'a': 1.0, 'b': 1.0})", "reward_space has the shape .1,."),
        ("paying_for_tests:paying(components={'a b': 1.0})", "names rewards, with their weights"),
        ("paying_for_tests:paying(components={'a': 'much'})", "names rewards, with their weights"),
        (
            "paying_for_tests:paying(components=['a', 'b', 'c'])",
            "names rewards, with their weights",
        ),
        ("vector:CartPole-v1(components={'a': 1.0})", "of single environments"),
        ("paying_for_tests:in_a_vector(components={'a': 1.0})", "of single environments"),
    ],
)
def test_what_cannot_be_is_refused(env: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        describe(env)


def test_another_number_of_them_is_told_with_the_step() -> None:
    with pytest.raises(ArtosError, match="is not 3 numbers"):
        describe(THREE.replace("(components", "(torn=True, components"))
