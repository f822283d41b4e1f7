"""Environments that other packages make: accepted as they are, or refused by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import gymnasium as gym
import numpy as np
import pytest

from artos.actors.rollout import RolloutActor
from artos.envs import hints
from artos.envs.make import describe, full_address, is_atari, make_vector
from artos.envs.stepper import Stepper
from artos.errors import BadRow, Refused
from artos.specs.address import address, parted

SUITE = "suites_for_tests"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    yield
    sys.modules.pop(SUITE, None)


def refusal(env: str) -> str:
    with pytest.raises(Refused) as refused:
        describe(env)
    return str(refused.value)


# -- arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [{}, {"a": 1}, {"task": 'it\'s (a) "task"', "b": [1, 2.5, None, True], "c": {"d": "e"}}],
)
def test_an_address_can_be_taken_apart(given: dict[str, object]) -> None:
    assert parted(address("CartPole-v1", given)) == ("CartPole-v1", given)


def test_later_arguments_replace_earlier_ones() -> None:
    assert address("E-v0(a=1, b=2)", {"a": 3}) == "E-v0(a=3, b=2)"


@pytest.mark.parametrize(
    "env", ["E-v0(1)", "E-v0(a=b)", "E-v0(a=)", "E-v0(**{'a': 1})", "E(a) + (1)"]
)
def test_other_parentheses_are_refused(env: str) -> None:
    with pytest.raises(Refused, match="--env-arg KEY=VALUE"):
        parted(env)


def test_arguments_reach_a_factory() -> None:
    stepper = Stepper(make_vector(f"{SUITE}:pole(pay=2.5)", 2))
    stepper.reset(0)
    assert stepper.step(np.zeros(2, np.int64)).rewards.tolist() == [2.5, 2.5]
    stepper.close()


def test_arguments_reach_a_registered_environment() -> None:
    stepper = Stepper(make_vector("CartPole-v1(sutton_barto_reward=True)", 1))
    stepper.reset(0)
    assert stepper.step(np.zeros(1, np.int64)).rewards.tolist() == [0.0]
    stepper.close()


def test_arguments_reach_a_vector_environment() -> None:
    made = make_vector("vector:CartPole-v1(sutton_barto_reward=True)", 2)
    made.reset(seed=0)
    assert made.step(np.zeros(2, np.int64))[1].tolist() == [0.0, 0.0]
    made.close()


@pytest.mark.parametrize("env", [f"{SUITE}:pole", "CartPole-v1", "vector:CartPole-v1"])
def test_unknown_arguments_are_refused_with_those_that_are_taken(env: str) -> None:
    said = refusal(f"{env}(nope=1, never=2)")
    assert "takes no argument 'nope'" in said
    assert "takes no argument 'never'" in said
    assert ("pay" if SUITE in env else "sutton_barto_reward") in said


def test_what_must_be_given_is_named() -> None:
    assert "it needs arguments: --env-arg task=..." in refusal(f"{SUITE}:Pole")


def test_an_actor_declares_arguments_in_one_place() -> None:
    actor = RolloutActor(f"{SUITE}:pole", env_args={"pay": 3.0})
    assert actor.spec.name == actor.env == f"{SUITE}:pole(pay=3.0)"


# -- names -------------------------------------------------------------------------------------


def test_without_a_version_the_latest_is_recorded() -> None:
    assert RolloutActor("CartPole").spec.name == "CartPole-v1"
    assert full_address("vector:CartPole(sutton_barto_reward=True)") == (
        "vector:CartPole-v1(sutton_barto_reward=True)"
    )
    assert full_address("nothing-of-that-name") == "nothing-of-that-name"


def test_a_package_that_registers_nothing_does_not_lend_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "fastpool", ModuleType("fastpool"))
    said = refusal("fastpool:CartPole-v1")
    assert "importing fastpool does not register CartPole-v1, which is gymnasium's own" in said
    assert "write --env CartPole-v1" in said
    assert describe("gymnasium:CartPole-v1").name == "gymnasium:CartPole-v1"


def test_a_wrong_id_of_a_named_package_is_answered_with_its_ids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "minigrid", ModuleType("minigrid"))
    name = "MiniGrid-Test-5x5-v0"
    gym.register(name, entry_point="minigrid.envs:Test")
    try:
        assert refusal("minigrid:MiniGrid-Test-5x5-v9") == (
            "minigrid registers no environment 'MiniGrid-Test-5x5-v9'"
            f": did you mean minigrid:{name}?"
        )
        assert f"did you mean minigrid:{name}?" in refusal("minigrid:MiniGridTest")
    finally:
        gym.registry.pop(name)


# -- what is shown and paid --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factory", "text", "numbers"),
    [("told", "mission", "numbers"), ("texted", "mission", "numbers"), ("listed", "0", "1")],
)
def test_text_is_left_out(factory: str, text: str, numbers: str) -> None:
    numbers = f"observations.{numbers}"
    spec = describe(f"{SUITE}:{factory}")
    assert [part.name for part in spec.parts] == [numbers]
    assert spec.left_out == (f"observations.{text}",)
    stepper = Stepper(make_vector(f"{SUITE}:{factory}", 2))
    assert list(stepper.reset(0)) == [numbers]
    ended = [stepper.step(np.zeros(2, np.int64)) for _ in range(5)][-1]
    assert ended.final is not None
    assert ended.final[numbers][:, 0].tolist() == [5, 5]
    stepper.close()


def test_vectors_of_rewards_are_refused_by_name() -> None:
    said = refusal(f"{SUITE}:torn")
    assert "rewards of shape (2,)" in said
    assert "LinearReward" in said
    assert describe(f"{SUITE}:mended").actions.kind == "discrete"


def test_older_interfaces_are_refused_by_name() -> None:
    assert "older interface" in refusal(f"{SUITE}:older")


def test_agents_of_supersuit_are_rows() -> None:
    stepper = Stepper(make_vector(f"{SUITE}:agents", 4))
    assert stepper.reset(0)["observations"].shape == (4, 1)
    steps = [stepper.step(np.zeros(4, np.int64)) for _ in range(3)]
    assert [step.ended is None for step in steps] == [True, True, False]
    assert steps[-1].final is not None
    assert steps[-1].final["observations"].tolist() == [[3.0]] * 4
    assert steps[-1].obs["observations"].tolist() == [[0.0]] * 4
    assert stepper.drain_episodes()[0] == (0.0, 3.0, 6.0, 9.0)
    stepper.close()


def test_agents_that_end_apart_are_refused_by_name() -> None:
    made = make_vector(f"{SUITE}:agents_apart", 4)
    made.reset()
    with pytest.raises(BadRow, match="is out while others of its game play on"):
        made.step(np.zeros(4, np.int64))


# -- MuJoCo ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("installed", "place", "wanted"),
    [("4.0.0", "dm_control/mujoco/index.py", "mujoco<4"),
     ("4.0.0", "gymnasium_robotics/utils/mujoco_utils.py", "mujoco<3.9"),
     ("3.11.0", "gymnasium_robotics/utils/mujoco_utils.py", "mujoco<3.9")],
)  # fmt: skip
def test_packages_beside_a_newer_mujoco(
    installed: str, place: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "version", lambda name: installed)
    spec = gym.spec("CartPole-v1")
    try:
        exec(compile("raise AttributeError('MjModel')", place, "exec"))
    except AttributeError as error:
        said = hints.unmade("dm_control/cheetah-run-v0", spec, error)
    assert f"fails with MuJoCo {installed}" in said
    assert f"pip install '{wanted}'" in said
    assert not hints.unmade("CartPole-v1", spec, ValueError("of its own"))


# -- ALE ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "env", ["vector:ALE/Breakout-v5", "ale_py:ALE/Breakout-v5", "ALE/Breakout", "ALE/Breakout-v5"]
)
@pytest.mark.usefixtures("atari")
def test_every_address_of_a_game_is_preprocessed_alike(env: str) -> None:
    assert is_atari(env)
    (part,) = describe(env).parts
    assert (part.shape, part.stack) == ((84, 84), 4)
    rng = np.random.default_rng(0)
    steppers = [Stepper(make_vector(name, 1)) for name in (env, "ALE/Breakout-v5")]
    for stepper in steppers:
        stepper.reset(3)
    for _ in range(40):
        action = rng.integers(0, 4, 1)
        ours, plain = (stepper.step(action) for stepper in steppers)
        assert (ours.obs["observations"] == plain.obs["observations"]).all()
        assert ours.rewards == plain.rewards
    for stepper in steppers:
        stepper.close()


@pytest.mark.usefixtures("atari")
def test_arguments_of_a_game() -> None:
    assert describe("ALE/Breakout-v5(full_action_space=True)").actions.sizes == (18,)
    assert "takes no argument 'reward_clipping'" in refusal("ALE/Breakout-v5(reward_clipping=True)")


@pytest.mark.usefixtures("atari")
def test_hidden_clipping_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "clipped_game.py").write_text(
        "from ale_py.vector_env import AtariVectorEnv\n"
        "def clipped(num_envs): return AtariVectorEnv('breakout', num_envs)\n"
        "def raw(num_envs):\n"
        "    made = AtariVectorEnv('breakout', num_envs, reward_clipping=False)\n"
        "    made.metadata = {**made.metadata, 'frame_stack': 4}\n"
        "    return made\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        assert "clips rewards" in refusal("clipped_game:clipped")
        (part,) = describe("clipped_game:raw").parts
        assert part.stack == 4
    finally:
        sys.modules.pop("clipped_game", None)
