"""The numbers of an environment come through a run as they are."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from inline_runs import finished, registered
from real_runs import checkpointed

import artos
from artos.policies.flat import layout, views
from deploy.cli.__main__ import main

HERE = Path(__file__).parent


@pytest.fixture
def folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder, and the one that the user is in."""
    shutil.copy(HERE / "shown_numbers.py", home)
    monkeypatch.chdir(home)
    return home


def trained(algorithm: str, folder: Path, **settings: Any) -> dict[str, Any]:
    """The tensors of a run's last version, by name."""
    settings = {"actors": 2, **settings}
    arrays = finished(registered(algorithm, folder, **settings), folder).arrays
    return views(arrays["params"], layout(module_of(algorithm, settings)))


def module_of(algorithm: str, settings: dict[str, Any]) -> Any:
    workload = importlib.import_module(f"triggers.algorithms.{algorithm}").workload
    return workload(**settings).actor.build_module(1)


REPLAY = {"total_steps": 256, "after": 64, "ratio": 1.0, "batch": 32, "sync": 1}


@pytest.mark.parametrize(
    ("algorithm", "env", "settings"),
    [
        ("ppo", "choosing", {"total_steps": 1024, "steps": 32}),
        ("ppo", "choosing", {"total_steps": 1024, "steps": 32, "recurrent": True}),
        ("a2c", "choosing", {"total_steps": 1024}),
        ("impala", "choosing", {"total_steps": 1024}),
        ("dqn", "choosing", REPLAY),
        ("dqn", "choosing", {**REPLAY, "replay": "prioritised"}),
        ("sac", "moving", REPLAY),
        ("td3", "moving", REPLAY),
        ("ddpg", "moving", REPLAY),
        ("d4pg", "moving", REPLAY),
    ],
)
def test_rows_that_only_reset_count_in_no_statistics_of_observations(
    algorithm: str, env: str, settings: dict[str, Any], folder: Path
) -> None:
    found = trained(algorithm, folder, env=f"shown_numbers:{env}", normalize=True, **settings)
    of = {name.rpartition(".")[2]: value for name, value in found.items() if "normalizer" in name}
    assert of["count"] > 0
    assert of["mean"].tolist() == [1.0]
    assert of["var"].tolist() == [0.0]


def test_the_same_numbers_of_any_dtype_teach_the_same(folder: Path) -> None:
    """To the last bit. ``mean_return_100`` of real runs may differ: it is of the episodes that were
    told last, and which actor is the first to tell is chance.
    """
    runs = [
        trained("ppo", folder, env=f"shown_numbers:lamps(dtype={dtype!r})", total_steps=4096)
        for dtype in ("float32", "uint8", "bool", "int64", "float64")
    ]
    for other in runs[1:]:
        for name, values in runs[0].items():
            np.testing.assert_array_equal(other[name], values, err_msg=name)


@pytest.mark.parametrize("env", ["CartPole-v1", "shown_numbers:choosing"])
@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_updates_of_a_single_row_are_finite(algorithm: str, env: str, folder: Path) -> None:
    """One advantage, return and observation have no deviation; a row that only resets has none."""
    one: dict[str, Any] = {"env": env, "steps": 1, "envs": 1, "total_steps": 40, "actors": 1}
    if algorithm == "ppo":
        one |= {"minibatches": 1}
    for name, values in trained(algorithm, folder, normalize=True, **one).items():
        assert np.isfinite(values).all(), name


@pytest.mark.parametrize("pipeline", ["none", "minibatch"])
def test_the_noise_of_gradients_is_measured_in_the_first_pass_whenever_that_is(
    pipeline: str, folder: Path
) -> None:
    done = finished(registered("shown_numbers.py:noisy", folder, pipeline=pipeline), folder)
    assert done.coordinator.monitor.metrics["noise_scale"] > 0


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("ppo", ("steps=32", "hidden=16")),
        ("ppo", ("steps=32", "hidden=16", "recurrent=true", "memory=8")),
        ("sac", ("after=96", "batch=16", "hidden=16")),
        ("td3", ("after=96", "batch=16", "hidden=16")),
        ("ddpg", ("after=96", "batch=16", "hidden=16")),
    ],
)
def test_units_of_actions_are_kept_where_a_run_goes_on_and_where_it_is_exported(
    algorithm: str, settings: tuple[str, ...], folder: Path
) -> None:
    """Numbers from 1000 to 1100, in which networks work with -1 ... 1."""
    words = ["run", algorithm, "--env", "shown_numbers:far", "--actors", "1", "--inline"]
    words += [word for each in (*settings, "checkpoint=all") for word in ("--set", each)]
    words += ["--total-steps", "0", "--total-updates"]
    assert main([*words, "8", "--run-dir", "whole"]) == 0
    assert main([*words, "4", "--run-dir", "parts"]) == 0
    assert main(["run", "--resume", "parts", "--total-updates", "8"]) == 0
    for name, array in checkpointed(Path("whole")).items():
        np.testing.assert_array_equal(checkpointed(Path("parts"))[name], array, err_msg=name)
    policy, obs = artos.load("parts"), np.random.default_rng(0).uniform(-1, 1, (7, 2))
    if policy.memory:
        return  # whose program is tested elsewhere
    acted = policy.act(obs)
    assert ((acted > 1000) & (acted < 1100)).all()
    assert np.ptp(acted) > 0
    policy.export("policy.pt2")
    program = torch.export.load("policy.pt2").module()
    found = program(torch.from_numpy(obs.astype(np.float32))).numpy()
    np.testing.assert_allclose(found, acted, rtol=0, atol=1e-3)
    assert found.dtype == acted.dtype == np.float64
