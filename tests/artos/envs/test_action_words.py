"""Each hint at a wrapper can be copied: the environment that it makes is taken, and acts."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from artos.envs.make import SerialVectorEnv
from artos.envs.spec import ActionKind, action_spec
from artos.envs.stepper import Stepper
from artos.envs.trial import anything
from artos.errors import Refused
from artos.policies.choosing import require_actions

OTHER = "ppo, a2c, impala, trpo, appo, rnd or es on it"

PAIR = spaces.Box(-1, 1, (2,), np.float32)


class Taking(gymnasium.Env[Any, Any]):
    """Takes actions of one space, and no others."""

    observation_space = PAIR

    def __init__(self, actions: spaces.Space[Any]) -> None:
        self.action_space = actions

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        return np.zeros(2, np.float32), 0.0, False, False, {}


def called(text: str, env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """What the call in a hint makes."""
    start = re.search(r"gymnasium\.wrappers\.\w+\(env", text)
    assert start, text
    words, end = text[start.start() :], start.end() - start.start()
    while words[:end].count("(") != words[:end].count(")") or words[end - 1] != ")":
        end += 1
    names = {"env": env, "gymnasium": gymnasium, "np": np}
    made: gymnasium.Env[Any, Any] = eval(words[:end], names)
    return made


def act(env: gymnasium.Env[Any, Any]) -> None:
    stepper = Stepper(SerialVectorEnv([lambda: env]))
    stepper.reset(0)
    rng = np.random.default_rng(0)
    for _ in range(50):
        stepper.step(anything(stepper.spec.actions, 1, rng))
    stepper.close()


@pytest.mark.parametrize(
    ("space", "kind", "says"),
    [
        (spaces.Tuple((spaces.Discrete(3), spaces.Discrete(2, start=4))), "multidiscrete",
         "take one MultiDiscrete"),
        (spaces.Dict(a=spaces.Discrete(3), b=spaces.Discrete(2)), "multidiscrete",
         "take one MultiDiscrete"),
        (spaces.Tuple((PAIR, spaces.Dict(a=PAIR))), "box", "take one Box"),
        (spaces.Box(2, 5, (2,), np.int64), "multidiscrete", "take a MultiDiscrete"),
        (spaces.Box(0, 255, (2, 1), np.uint8), "multidiscrete", "take a MultiDiscrete"),
        (spaces.Box(0, 5, (30,), np.int32), "box", "round them"),
        (spaces.Box(0, 2**40, (2,), np.int64), "box", "round them"),
    ],
)  # fmt: skip
def test_an_action_space_without_a_form_here(
    space: spaces.Space[Any], kind: ActionKind, says: str
) -> None:
    with pytest.raises(TypeError, match=says) as refused:
        action_spec(space)
    env = called(str(refused.value), Taking(space))
    assert action_spec(env.action_space).kind == kind
    act(env)


@pytest.mark.parametrize(
    ("space", "says"),
    [
        (spaces.Tuple((spaces.Discrete(3), PAIR)), "no algorithm here chooses numbers and choices"),
        (spaces.Tuple((spaces.Discrete(3), spaces.MultiBinary(2))), "one MultiDiscrete with a num"),
        (
            spaces.Sequence(spaces.Tuple([PAIR] * 9)),
            r"^actions are Sequ.* \.\.\.: let gymnasium.wra",
        ),
        (spaces.Sequence(spaces.Discrete(3)), "let gymnasium.wrappers.TransformAction take a Disc"),
    ],
)
def test_what_only_its_author_can_change(space: spaces.Space[Any], says: str) -> None:
    with pytest.raises(TypeError, match=says) as refused:
        action_spec(space)
    assert len(str(refused.value)) < 400


def refusal(space: spaces.Space[Any], chooser: str, *kinds: ActionKind) -> str:
    stepper = Stepper(SerialVectorEnv([lambda: Taking(space)]), "own:env")
    with pytest.raises(Refused) as refused:
        require_actions(stepper.spec, chooser, *kinds)
    return str(refused.value)


@pytest.mark.parametrize(
    "space",
    [
        spaces.MultiDiscrete([3, 4]),
        spaces.MultiDiscrete([[2, 3], [5, 2]], start=[[0, 1], [2, 0]]),
        spaces.MultiBinary(3),
        spaces.MultiBinary((2, 2)),
    ],
)
@pytest.mark.parametrize("kinds", [("discrete",), ("discrete", "box")])
def test_several_choices_at_once(space: spaces.Space[Any], kinds: tuple[ActionKind, ...]) -> None:
    said = refusal(space, "DQN", *kinds)
    assert "own:env takes" in said
    assert f"choices at once: run {OTHER}, or make one choice of their" in said
    env = called(said, Taking(space))
    assert action_spec(env.action_space).kind == "discrete"
    act(env)


def test_too_many_combinations_are_not_made_one_choice() -> None:
    said = refusal(spaces.MultiDiscrete([30] * 5), "DQN", "discrete")
    assert said.endswith(f"takes 5 choices at once: run {OTHER}")


def test_numbers_where_choices_are_wanted() -> None:
    said = refusal(PAIR, "DQN", "discrete")
    assert f"numbers of shape (2,): run sac, td3, ddpg, d4pg, crossq, {OTHER}, or make one" in said
    act(called(said, Taking(PAIR)))


def test_choices_where_numbers_are_wanted() -> None:
    said = refusal(spaces.Discrete(3), "TD3", "box")
    assert said.endswith(f"takes one of 3 actions: run dqn, rainbow, apex, r2d2, sac, {OTHER}")


def test_numbers_without_bounds() -> None:
    space = spaces.Box(-np.inf, 1, (2,), np.float32)
    said = refusal(space, "SAC", "box", "discrete")
    assert f"numbers of shape (2,) without bounds: run {OTHER}, or give" in said
    assert "ClipAction takes bounds away" in said
    act(called(said, Taking(space)))
    assert "wrappers" not in refusal(space, "DQN", "discrete")
