"""Action masks: found at registration, right for every row in every autoreset mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from masked_env import Masked, Source, allowed

from artos.envs.make import describe
from artos.envs.serial import SerialVectorEnv
from artos.envs.spec import EnvSpec
from artos.envs.stepper import Stepper
from artos.errors import BadRow, Refused
from artos.specs.keys import MASK_KEY

LENGTHS = (3, 5)
WAYS = {
    "serial": (SerialVectorEnv, AutoresetMode.SAME_STEP),
    "serial, next step": (SerialVectorEnv, AutoresetMode.NEXT_STEP),
    "same step": (SyncVectorEnv, AutoresetMode.SAME_STEP),
    "next step": (SyncVectorEnv, AutoresetMode.NEXT_STEP),
    "disabled": (SyncVectorEnv, AutoresetMode.DISABLED),
    "disabled, next step": (SyncVectorEnv, AutoresetMode.DISABLED),
}


def stepper_of(way: str, source: Source, several: bool, truncates: bool) -> Stepper:
    kind, mode = WAYS[way]
    makers = [lambda n=n: Masked(source, several, n, truncates) for n in LENGTHS]
    vector = kind(makers, mode) if kind is SerialVectorEnv else kind(makers, autoreset_mode=mode)
    later = AutoresetMode.NEXT_STEP if "next step" in way else AutoresetMode.SAME_STEP
    return Stepper(vector, "masked", autoreset=later, masked=source == "info")


def first_allowed(mask: Any, several: bool) -> Any:
    """The last action that may be taken, as it is stored; ``mask`` is (E, choices)."""
    if not several:
        return mask.shape[1] - 1 - mask[:, ::-1].argmax(1)
    return np.stack([mask[:, :5].argmax(1), mask[:, 5:].argmax(1)], 1)


@pytest.mark.parametrize("truncates", [False, True])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("source", ["dict", "info"])
@pytest.mark.parametrize("way", WAYS)
def test_each_row_has_the_mask_of_its_state(
    way: str, source: Source, several: bool, truncates: bool
) -> None:
    """The environment refuses forbidden actions; its step is in the observation."""
    stepper = stepper_of(way, source, several, truncates)
    sizes = (5, 3) if several else (5,)
    key = "observations.observation" if source == "dict" else "observations"
    obs, ends = stepper.reset(1), 0
    for _ in range(30):
        mask = obs[MASK_KEY]
        assert (mask.dtype, mask.shape) == (np.dtype(bool), (2, sum(sizes)))
        for env, at in enumerate(obs[key][:, 0].astype(int)):
            over = at == LENGTHS[env]
            wanted = np.ones(sum(sizes)) if over else allowed(at, sizes)
            np.testing.assert_array_equal(mask[env], wanted)
        step = stepper.step(first_allowed(mask, several))
        obs = step.obs
        if step.final is not None and step.ended is not None:
            ends += len(step.ended)
            np.testing.assert_array_equal(step.final[key][:, 0], np.array(LENGTHS)[step.ended])
            assert step.final[MASK_KEY].all(), "nobody chooses in a last state"
            assert step.final[MASK_KEY].shape == (len(step.ended), sum(sizes))
    assert ends >= 30 // 4 + 30 // 6
    stepper.close()


@pytest.mark.parametrize("source", ["dict", "info"])
def test_a_state_in_which_nothing_is_allowed_is_refused(source: Source) -> None:
    makers = [lambda: Masked(source), lambda: Masked(source, wrong=2)]
    stepper = Stepper(SerialVectorEnv(makers), "maze", masked=source == "info")
    stepper.actor = 4
    obs = stepper.reset(1)
    obs = stepper.step(first_allowed(obs[MASK_KEY], several=False)).obs
    with pytest.raises(BadRow, match="environment 1 of maze allows no action") as caught:
        stepper.step(first_allowed(obs[MASK_KEY], several=False))
    assert (caught.value.key, caught.value.actor) == (MASK_KEY, 4)


def test_one_sub_action_without_any_choice_is_enough_to_refuse() -> None:
    class Half(Masked):
        @property
        def mask(self) -> Any:
            return np.array([1] * 5 + [0] * 3)

    stepper = Stepper(SerialVectorEnv([lambda: Half("info", several=True)]), masked=True)
    with pytest.raises(BadRow, match="allows no action"):
        stepper.reset(1)


def test_a_mask_that_is_not_always_there_is_refused() -> None:
    class Forgetful(Masked):
        def step(self, action: Any) -> Any:
            *found, _ = super().step(action)
            return *found, {}

    stepper = Stepper(SerialVectorEnv([lambda: Forgetful("info")]), masked=True)
    obs = stepper.reset(1)
    with pytest.raises(BadRow, match="in the info of reset and of every step"):
        stepper.step(first_allowed(obs[MASK_KEY], several=False))


@pytest.mark.parametrize(
    ("env", "masked", "choices"),
    [("in_observation", "observation", 5), ("in_info", "info", 5), ("several", "observation", 8),
     ("several_in_info", "info", 8), ("next_step", "info", 5), ("disabled", "info", 5)],
)  # fmt: skip
def test_found_without_being_declared(env: str, masked: str, choices: int) -> None:
    spec: EnvSpec = describe(f"masked_env:{env}")
    assert spec.masked == masked
    (mask,) = [part for part in spec.parts if part.name == MASK_KEY]
    assert (mask.shape, mask.dtype) == ((choices,), "bool")
    assert [part.shape for part in spec.features] == [(1,)]
    assert MASK_KEY in {key.name for key in spec.data_keys()}


@pytest.mark.parametrize("env", ["CartPole-v1", "Taxi-v4"])
def test_others_have_none_and_taxis_has_one(env: str) -> None:
    assert describe(env).masked == ("info" if env.startswith("Taxi") else "")


@pytest.mark.parametrize(
    ("env", "words"),
    [("steered", "masks discrete actions, and these are continuous"),
     ("steered_in_observation", "masks discrete actions, and these are continuous"),
     ("short", r"has shape \(2,\); it needs one number for each choice, \(5,\)")],
)  # fmt: skip
def test_masks_that_fit_no_actions_are_refused(env: str, words: str) -> None:
    with pytest.raises(Refused, match=words):
        describe(f"masked_env:{env}")
