from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from toys import Counting, Listening, Nested, Shifted

from artos.envs.make import describe, make_vector
from artos.envs.serial import SerialVectorEnv
from artos.envs.spec import EnvSpec, spec_of
from artos.envs.stepper import Stepper
from artos.errors import Refused


def refusal(env: str, envs: int = 2) -> str:
    with pytest.raises(Refused) as caught:
        make_vector(env, envs)
    return str(caught.value)


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_a_gymnasium_id_steps_like_gymnasiums_own_vector(mode: AutoresetMode) -> None:
    import gymnasium as gym  # noqa: PLC0415

    ours = make_vector("CartPole-v1", 3, autoreset=mode)
    assert ours.metadata["autoreset_mode"] is mode
    theirs = gym.make_vec("CartPole-v1", 3, "sync", {"autoreset_mode": mode})
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(ours.reset(seed=5)[0], theirs.reset(seed=5)[0])
    for _ in range(100):
        actions = rng.integers(0, 2, 3)
        for mine, other in zip(ours.step(actions)[:4], theirs.step(actions)[:4], strict=True):
            np.testing.assert_array_equal(mine, other)
    ours.close()
    theirs.close()


@pytest.mark.parametrize(
    ("name", "near"),
    [("CartPol-v1", "CartPole-v1"), ("cartpole", "CartPole"), ("PongNoFrameskp-v4", "")],
)
def test_an_unknown_name_is_answered_with_the_closest(name: str, near: str) -> None:
    said = refusal(name)
    assert f"unknown environment {name!r}" in said
    assert near in said


def test_a_version_that_does_not_exist_says_so() -> None:
    assert "CartPole-v1" in refusal("CartPole-v77")


@pytest.mark.parametrize("factory", ["make_counting", "Counting", "make_seeded", "make_vectored"])
def test_a_factory_may_return_one_or_many(factory: str) -> None:
    env = make_vector(f"toys:{factory}", 3, seed=1)
    assert env.num_envs == 3
    stepper = Stepper(env)
    stepper.reset(0)
    for _ in range(6):
        stepper.step(np.zeros(3, np.int64))
    expected = {3, 4, 5} if factory == "make_seeded" else {3}
    assert set(stepper.drain_episodes()[1]) == expected
    stepper.close()


@pytest.mark.parametrize(
    ("factory", "says"),
    [
        ("toys:make_failing", "the track file is missing"),
        ("toys:make_nothing", "returned a int"),
        ("toys:NOT_CALLABLE", "not a function"),
        ("toys:absent", "has no absent"),
        ("no_such_module:make", "there is no module no_such_module in this folder"),
        ("toys.py:make", "write the module's name, toys, without .py"),
        ("toys:make_two", "made 2 environments where 3 were asked for"),
    ],
)
def test_a_factory_that_fails_is_refused_with_the_reason(factory: str, says: str) -> None:
    assert says in refusal(factory, 3)


def test_a_factory_in_the_users_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_track_of_dust.py").write_text("import gone_for_good\n")
    (tmp_path / "my_track.py").write_text(
        "import gymnasium\ndef make():\n    return gymnasium.make('CartPole-v1')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    make_vector("my_track:make", 2).close()
    assert "gone_for_good" in refusal("my_track_of_dust:make")


def test_spaces_that_cannot_be_stored_are_refused_together() -> None:
    env = SerialVectorEnv([Counting])
    env.single_observation_space = Listening().observation_space
    env.single_action_space = Listening().action_space
    with pytest.raises(Refused) as caught:
        spec_of("listening", env)
    assert len(caught.value.faults) == 2
    env.close()


def test_data_keys_of_nested_dicts() -> None:
    env = SerialVectorEnv([Nested])
    spec = spec_of("nested", env)
    keys = {key.name: (key.shape, key.dtype) for key in spec.data_keys()}
    assert keys == {
        "observations.bits": ((3,), "int8"),
        "observations.height": ((2, 2), "float32"),
        "observations.place.door": ((2,), "int64"),
        "observations.place.room": ((), "int64"),
        "actions": ((2,), "int64"),
        "rewards": ((), "float32"),
        "terminations": ((), "bool"),
        "truncations": ((), "bool"),
    }
    assert spec.dict_observations
    assert not [fault for key in spec.data_keys() for fault in key.faults()]
    env.close()


def test_a_description_survives_json() -> None:
    for env in (
        SerialVectorEnv([Nested]),
        SerialVectorEnv([Shifted]),
        make_vector("Pendulum-v1", 1),
    ):
        spec = spec_of("some", env)
        assert msgspec.json.decode(msgspec.json.encode(spec), type=EnvSpec) == spec
        env.close()


def test_only_next_step_environments_have_the_key_valid() -> None:
    assert "valid" in {key.name for key in describe("vector:CartPole-v1").data_keys()}
    assert "valid" not in {key.name for key in describe("CartPole-v1").data_keys()}
    waiting = describe("CartPole-v1").resetting(AutoresetMode.NEXT_STEP)
    assert "valid" in {key.name for key in waiting.data_keys()}
    theirs = describe("vector:CartPole-v1")
    assert theirs.resetting(AutoresetMode.SAME_STEP) == theirs


def test_a_vectorised_implementation_that_does_not_exist_is_refused() -> None:
    assert "no vectorised implementation" in refusal("vector:Acrobot-v1")


def test_continuous_actions_are_described() -> None:
    actions = describe("Pendulum-v1").actions
    assert (actions.kind, actions.shape, actions.low, actions.high) == ("box", (1,), (-2,), (2,))
    assert actions.stored_dtype == "float32"
