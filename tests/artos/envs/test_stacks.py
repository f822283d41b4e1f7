"""Frame stacks are found by Gymnasium's wrapper where real rows confirm it, else stored whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import (
    AtariPreprocessing,
    FrameStackObservation,
    NormalizeObservation,
    TimeLimit,
    TransformObservation,
)
from inline_runs import registered
from masked_env import Masked
from toys import Counting

from artos.actors.context import ActorContext
from artos.actors.rollout import RolloutActor
from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.buffer.samplers.batch import Batch
from artos.buffer.samplers.uniform import UniformSampler
from artos.buffer.shm_folder import ShmFolder
from artos.envs.make import describe
from artos.errors import Refused
from artos.protocol.invocations import Claim, Invoke
from artos.specs.keys import MASK_KEY, VERSION_KEY, DataKey

K = 4
Env = gym.Env[Any, Any]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in shared memory."""
    made = ShmFolder.create("test")
    yield made.path
    made.remove()


def stacked(padding: Any = "reset", **options: Any) -> Env:
    return FrameStackObservation(Counting(**options), K, padding_type=padding)


def reset_padding() -> Env:
    return stacked()


def zero_padding() -> Env:
    return stacked("zero", length=6)


def own_padding() -> Env:
    return stacked(np.array([1, 2], np.float32))


def limited() -> Env:
    return TimeLimit(stacked(length=99), 5)


def halved() -> Env:
    """Each frame is changed in the same way: still a stack."""
    return TransformObservation(stacked(), lambda obs: obs / 2, stacked().observation_space)


def scaled() -> Env:
    """Old frames are changed by later statistics: no stack any more."""
    return NormalizeObservation(stacked())


def turned() -> Env:
    space = stacked().observation_space
    return TransformObservation(stacked(), lambda obs: obs[::-1], space)


def switched_off() -> Env:
    env = stacked()
    env.metadata = {**env.metadata, "frame_stack": 1}
    return env


def failing() -> Env:
    env = stacked()
    env.unwrapped.step = lambda action: 1 / 0  # type: ignore[method-assign,assignment]
    return env


def masked() -> Env:
    return FrameStackObservation(Masked("info"), K)


def next_step(num_envs: int) -> VectorEnv[Any, Any, Any]:
    return SyncVectorEnv([stacked] * num_envs, autoreset_mode=AutoresetMode.NEXT_STEP)


def disabled(num_envs: int) -> VectorEnv[Any, Any, Any]:
    return SyncVectorEnv([stacked] * num_envs, autoreset_mode=AutoresetMode.DISABLED)


FOUND = {
    reset_padding: "first", zero_padding: "zero", limited: "first", halved: "first",
    masked: "first", next_step: "first", disabled: "first",
}  # fmt: skip
WHOLE = [own_padding, scaled, turned, switched_off]


@pytest.mark.parametrize("make", FOUND)
def test_a_stack_is_stored_frame_by_frame(make: Callable[..., Any]) -> None:
    spec = describe(f"test_stacks:{make.__name__}")
    (part,) = spec.features
    assert (part.stack, part.padding) == (K, FOUND[make])
    assert part.value_shape == (K, *part.shape)
    assert "ages" in {key.name for key in spec.data_keys()}
    assert (MASK_KEY in {key.name for key in spec.data_keys()}) == (make is masked)


@pytest.mark.parametrize("make", WHOLE)
def test_what_is_no_stack_or_is_not_to_be_one_is_stored_whole(make: Callable[..., Any]) -> None:
    (part,) = describe(f"test_stacks:{make.__name__}").parts
    assert (part.stack, part.shape) == (1, (K, 2))


def test_one_that_fails_in_its_first_step_is_refused_with_the_place() -> None:
    with pytest.raises(Refused, match=r"(?s)test_stacks:failing fails: .*1 / 0.*ZeroDivision"):
        describe("test_stacks:failing")


def pong() -> Env:
    env = gym.make("PongNoFrameskip-v4")
    return FrameStackObservation(AtariPreprocessing(env), K, padding_type="zero")


@pytest.mark.usefixtures("atari")
def test_a_stack_of_a_preprocessed_game_is_found() -> None:
    import ale_py  # noqa: PLC0415

    gym.register_envs(ale_py)
    (part,) = describe("test_stacks:pong").parts
    assert (part.shape, part.dtype, part.stack, part.padding) == ((84, 84), "uint8", K, "zero")


class Noted:
    """A policy that notes every observation."""

    def __init__(self, envs: int) -> None:
        self.seen: list[Any] = []
        zeros = np.zeros(envs, np.float32)
        self.output = {"actions": np.zeros(envs, np.int64), "log_probs": zeros, "values": zeros}

    def bind(self, flat: Any) -> None:
        pass

    def act(self, obs: Any, info: Any) -> Any:
        self.seen.append(obs["observations"].copy())
        return self.output

    def values(self, obs: Any, info: Any) -> Any:
        return self.output["values"]


class Noting(RolloutActor):
    def build_module(self, seed: int) -> Any:
        return None

    def make_policy(self, module: Any, seed: int) -> Any:
        self.noted = Noted(self.envs)
        return self.noted


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("name", ["reset_padding", "zero_padding", "limited"])
def test_rebuilt_stacks_are_those_that_the_actor_saw(
    name: str, final: bool, folder: Path, tmp_path: Path
) -> None:
    envs, rows = 2, 40
    actor = Noting(f"test_stacks:{name}", None, envs, final_observations=final)
    keys = (*actor.data_keys(), DataKey(VERSION_KEY, (), "int64", per_env=False))
    spec = BlockSpec(0, keys, 64, envs, (), "overwrite")
    block = ActorBlock.create(folder / "block", spec)
    plan = registered("ppo", tmp_path, env=f"test_stacks:{name}", envs=envs).plan
    actor.setup(ActorContext(plan, 0, 0, block, 5))
    start = block.allocate(rows)
    actor.sample(start, rows, Invoke(0, "", ""))
    block.commit(rows)
    seen = np.stack(actor.noted.seen)
    assert block.arrays["observations"].shape == (64, envs, 2), "one frame a row"
    batch = Batch({0: block}, [Claim(0, 0, rows)])
    np.testing.assert_array_equal(batch.gather("observations")[0], seen)
    if final:
        sampler = UniformSampler(
            {0: block}, ("observations",), 200, next_keys=("observations",), seed=1
        )
        sample = sampler.sample()
        _, steps, columns = sample["index"].T
        np.testing.assert_array_equal(sample["observations"], seen[steps, columns])
        np.testing.assert_array_equal(sample["next.observations"], seen[steps + 1, columns])
    actor.close()
