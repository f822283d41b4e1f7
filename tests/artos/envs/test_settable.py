"""Settings of environments: each has them from its next episode on, whatever steps it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import settable_envs
from gymnasium.vector import AutoresetMode

from artos.envs.make import describe, make_vector
from artos.envs.stepper import Stepper
from artos.errors import Refused
from artos.specs.configuration import Changeable

SINGLE, WAITING = AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP
WAYS = [
    ("single", SINGLE), ("single", WAITING), ("wrapped", SINGLE), ("wrapped", WAITING),
    ("next_step", WAITING), ("disabled", SINGLE), ("disabled", WAITING),
]  # fmt: skip


def stepper_of(name: str, mode: AutoresetMode, envs: int = 2) -> Stepper:
    return Stepper(make_vector(f"settable_envs:{name}", envs, 0, mode), name, autoreset=mode)


def stepped(stepper: Stepper) -> tuple[list[Any], list[int]]:
    """What the next step leads to, and the configurations of the episodes there."""
    obs = stepper.step(np.zeros(stepper.envs, np.int64)).obs["observations"]
    return obs.tolist(), stepper.configurations.tolist()


@pytest.mark.parametrize(("name", "mode"), WAYS)
def test_an_episode_that_goes_on_is_not_disturbed(name: str, mode: AutoresetMode) -> None:
    stepper = stepper_of(name, mode)
    stepper.reset(0)
    assert stepped(stepper) == ([[1, 1, 0]] * 2, [0, 0])
    assert stepper.configure({"difficulty": 5}, 3) is None
    seen = [stepped(stepper) for _ in range(3 if mode is WAITING else 2)]
    # The last step of the episode still has the old value; what follows has the new one.
    for obs, configurations in seen:
        value = 5 if configurations == [3, 3] else 1
        assert obs == [[value, value, 0]] * 2
    assert [configurations for _, configurations in seen][-2:] == [[0, 0], [3, 3]]
    returns, _ = stepper.drain_episodes()
    assert len(returns) == 2
    assert stepper.begun == (0, 0)
    for _ in range(3 if mode is SINGLE else 4):
        assert stepped(stepper)[1] == [3, 3]
    stepper.drain_episodes()
    assert stepper.begun == (3, 3)


@pytest.mark.parametrize("mode", [SINGLE, WAITING])
@pytest.mark.parametrize("later", [False, True])
def test_a_state_that_is_put_back_has_what_was_set(mode: AutoresetMode, *, later: bool) -> None:
    """Whether it was set before the state was kept, or ``later``."""
    stepper = stepper_of("single", mode)
    stepper.reset(0)
    stepped(stepper)
    states = [stepper.state_of(env) for env in range(2)]
    stepper.configure({"difficulty": 5}, 3)
    if not later:
        states = [stepper.state_of(env) for env in range(2)]
    for _ in range(2):
        rows = [stepped(stepper) for _ in range(3 if mode is WAITING else 2)]
        assert rows[-1] == ([[5, 5, 0]] * 2, [3, 3])
        for env, state in enumerate(states):
            stepper.put_state(env, state)
        assert stepper.configurations.tolist() == [0, 0]


@pytest.mark.parametrize("name", ["single", "wrapped", "next_step", "disabled", "same_step"])
def test_environments_that_were_not_stepped_begin_anew(name: str) -> None:
    """So the first episode of an actor that was started again has what was set before."""
    stepper = stepper_of(name, WAITING if name == "next_step" else SINGLE)
    stepper.reset(7)
    begun = stepper.configure({"difficulty": 4}, 2)
    assert begun is not None
    assert begun["observations"].tolist() == [[4, 4, 0]] * 2
    assert stepper.configurations.tolist() == [2, 2]


def test_one_that_resets_itself_in_the_same_step_takes_the_value_over_in_reset() -> None:
    stepper = stepper_of("same_step", SINGLE)
    stepper.reset(0)
    stepped(stepper)
    stepper.configure({"difficulty": 4}, 2)
    assert [[row[0] for row in stepped(stepper)[0]] for _ in range(2)] == [[1, 1], [4, 4]]
    assert stepper.configurations.tolist() == [2, 2]


def test_a_method_takes_the_value_and_each_type_is_its_own() -> None:
    spec = describe("settable_envs:wrapped")
    assert spec.settable == (
        Changeable("difficulty", ge=0, le=9, kind="int"),
        Changeable("faster"),
        Changeable("slippery", kind="bool"),
    )
    assert "configuration" in [key.name for key in spec.data_keys()]
    stepper = stepper_of("wrapped", SINGLE)
    stepper.reset(0)
    begun = stepper.configure({"faster": 2.5, "slippery": True}, 1)
    assert begun is not None
    assert begun["observations"].tolist() == [[1, 1, 2.5]] * 2
    assert [env.unwrapped.slippery for env in stepper.env.envs] == [True, True]  # type: ignore[attr-defined]


def test_games_are_set_when_they_begin_again() -> None:
    assert describe("settable_envs:game").settable == (Changeable("bonus"),)
    stepper = stepper_of("game", WAITING)
    stepper.reset(0)
    stepped(stepper)
    stepper.configure({"bonus": 6.0}, 1)
    seen = [stepped(stepper)[0][0][0] for _ in range(4)]
    assert seen == [1, 1, 6, 6]


@pytest.mark.parametrize("name", ["single", "disabled"])
def test_what_is_wanted_outlives_the_process(name: str) -> None:
    """A snapshot between the setting and the end of the episode has it, too."""
    stepper = stepper_of(name, SINGLE)
    stepper.reset(0)
    stepped(stepper)
    stepper.configure({"difficulty": 8}, 5)
    taken = pickle.loads(pickle.dumps(stepper.snapshot()))
    other = stepper_of(name, SINGLE)
    other.reset(1)
    other.go_on(taken)
    assert [stepped(other)[1] for _ in range(2)] == [[0, 0], [5, 5]]
    assert stepped(other)[0] == [[8, 8, 0]] * 2


def test_what_it_lacks_or_cannot_have_set_is_refused_at_once() -> None:
    with pytest.raises(Refused) as refused:
        describe("settable_envs:wrong")
    one, other = refused.value.faults
    assert "names 'difficult': it has no such attribute" in one
    assert "names 'words': its value is 'hard', and only numbers can be set" in other
    for name, why in (
        ("no_list", "lists names"),
        ("with_a_method", "name an attribute that holds a number, not a method"),
        ("unreachable", "Unreachable has no get_attr"),
    ):
        with pytest.raises(Refused, match=why):
            describe(f"settable_envs:{name}")


def test_values_have_the_range_and_the_kind_that_was_declared() -> None:
    whole, switch = Changeable("n", ge=0, kind="int"), Changeable("on", kind="bool")
    assert [*whole.faults("env.n", 2.5)] == ["env.n must be a whole number, not 2.5"]
    assert [*switch.faults("env.on", 2)] == ["env.on must be 0 or 1, not 2"]
    assert not [*whole.faults("env.n", 3), *switch.faults("env.on", 1)]
    assert (whole.value(3.0), switch.value(1.0)) == (3, True)
    assert isinstance(whole.value(3.0), int)
    assert settable_envs.Steep.metadata["settable"][0].kind == "float", "declared without a kind"
