"""What each built-in algorithm has trained is loaded, played and exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import artos
from triggers.algorithms import BUILT_IN

ON_POLICY = ("ppo", "a2c", "impala", "trpo", "appo", "rnd")
ENVS = dict.fromkeys((*ON_POLICY, "dqn", "rainbow", "apex", "r2d2"), "CartPole-v1")
ENVS |= {"es": "CartPole-v1"}
ENVS |= dict.fromkeys(("sac", "td3", "ddpg", "d4pg", "crossq"), "Pendulum-v1")
ENVS |= {"grpo": "ReverseText-v0"}
LONG = ("a2c", "appo", "trpo", "rainbow", "apex", "td3", "ddpg", "d4pg", "crossq")


def test_all_algorithms_are_here() -> None:
    assert ENVS.keys() == BUILT_IN.keys()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in ENVS]
)
def test_it_is_used(name: str, train: Any, tmp_path: Path) -> None:
    # Four actors sample while little is learned, and Rainbow at first does one thing only.
    steps = 2_500 if name in ("apex", "r2d2", "rainbow") else 1_100
    trained = artos.load(train(name, name, "--env", ENVS[name], steps=steps))
    rng, (part,) = np.random.default_rng(1), trained.spec.parts
    if part.sizes:
        obs: Any = rng.integers(0, part.sizes, (40, *part.shape))
    else:
        obs = rng.normal(size=(40, *part.shape)).astype(np.float32)
    trained.export(tmp_path / "policy.pt2")
    program = torch.export.load(tmp_path / "policy.pt2").module()
    seen = torch.from_numpy(obs)
    state = {k.name: rng.normal(size=(40, *k.shape)).astype(k.dtype) for k in trained.memory}
    if state:
        told, _ = program(seen, {name: torch.from_numpy(each) for name, each in state.items()})
        found = trained.act(obs, state=state)
    else:
        told, found = program(seen), trained.act(obs)
    np.testing.assert_allclose(told.numpy(), found, atol=1e-5)
    assert found.std() > 0
    assert len(trained.evaluate(2).returns) == 2
    module = trained.module
    assert not any(weight.isnan().any() for weight in module.state_dict().values())
