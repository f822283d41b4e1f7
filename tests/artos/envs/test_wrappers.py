"""Wrappers that an address names: each environment is within them, in their order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from artos.actors.rollout import RolloutActor
from artos.envs.film import Studio, filmed
from artos.envs.make import describe, make_vector
from artos.envs.stepper import Stepper
from artos.errors import Refused

SHORT = ("gymnasium.wrappers:TimeLimit", {"max_episode_steps": 3})
SCALED = ("wrapping_for_tests:Scaled", {"by": 10.0})


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)


@pytest.mark.parametrize("env", ["CartPole-v1", "wrapping_for_tests:cartpole"])
def test_they_wrap_in_their_order(env: str) -> None:
    args = {"wrappers": [SHORT, SCALED, "wrapping_for_tests:Told"]}
    actor = RolloutActor(env, envs=2, env_args=args)
    stepper = Stepper(make_vector(actor.env, 2), actor.env)
    stepper.reset(0)
    for number in range(3):
        found = stepper.step(np.array([0, 1]))
        assert found.rewards.tolist() == [11.0, 11.0], "first times ten, then one more"
        assert (found.ended is not None) == (number == 2)
    stepper.close()


def test_what_they_show_is_what_is_stored() -> None:
    flat = describe("CartPole-v1(wrappers=['wrapping_for_tests:Halved'])")
    assert [part.shape for part in flat.parts] == [(2,)]


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ("CartPole-v1(wrappers=[])", "is a list of module:Class"),
        ("CartPole-v1(wrappers={'a:B': 1})", "is a list of module:Class"),
        ("CartPole-v1(wrappers=['Scaled'])", "is a list of module:Class"),
        ("CartPole-v1(wrappers=[('a:B', 1)])", "is a list of module:Class"),
        ("CartPole-v1(wrappers='wrapping_for_tests:Nothing')", "Nothing"),
        ("CartPole-v1(wrappers='wrapping_for_tests:Scaled(by=2)')", "is a list of module:Class"),
        ("CartPole-v1(wrappers='openenv:ws://127.0.0.1:1')", "is a list of module:Class"),
        ("CartPole-v1(wrappers='no_such_module:Nothing')", "no_such_module"),
        ("CartPole-v1(wrappers='wrapping_for_tests:Scaled')", "Scaled fails: TypeError: .*'by'"),
        ("CartPole-v1(wrappers='wrapping_for_tests:number')", "made a int, no environment"),
        ("vector:CartPole-v1(wrappers='wrapping_for_tests:Told')", "of single environments"),
        ("ALE/Pong-v5(wrappers='wrapping_for_tests:Told')", "takes no argument 'wrappers'"),
    ],
)
def test_what_cannot_be_is_refused(env: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        describe(env)


def test_a_film_shows_them_too(tmp_path: Path) -> None:
    actor = RolloutActor(
        "wrapping_for_tests:Drawn",
        env_args={"wrappers": [SHORT], "components": {"one": 1.0, "two": 10.0}},
    )
    spec = describe(actor.env)
    studio = Studio(tmp_path, 1, 1)
    made, see = filmed(actor.env, 0, spec, studio, 1)
    stepper = Stepper(made, actor.env)
    see(stepper.reset(0))
    for number in range(3):
        found = stepper.step(np.array([0]))
        see(found)
        assert found.rewards.tolist() == [21.0]
        assert (found.ended is not None) == (number == 2)
    stepper.close()
    assert studio.written == [str(tmp_path / "episode-0.gif")]
