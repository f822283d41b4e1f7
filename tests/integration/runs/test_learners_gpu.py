"""Every built-in learner on a GPU, next to the same on the CPU; with a real run at the end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from gpus import GPU, needs_gpu
from placed_learners import COMPILED, LEARNERS, Parking, learned

from deploy.cli.__main__ import main

pytestmark = [
    needs_gpu,
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore:RNN module weights"),  # cuDNN copies them at each call
]


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_learns_the_same_on_a_gpu(name: str, tmp_path: Path) -> None:
    here, there = learned(name, tmp_path, "cpu"), learned(name, tmp_path, GPU)
    assert there.coordinator.monitor.restarts == 0
    for key, value in here.arrays.items():
        if name.startswith("sac") or name == "td3":  # other random numbers: only that it learns
            assert np.isfinite(there.arrays[key]).all(), key
        else:
            np.testing.assert_allclose(there.arrays[key], value, rtol=2e-2, atol=2e-3, err_msg=key)


@pytest.mark.parametrize("name", LEARNERS)
def test_parking_on_a_gpu_changes_nothing(name: str, tmp_path: Path) -> None:
    plain, parked = learned(name, tmp_path, GPU), learned(name, tmp_path, GPU, Parking)
    assert parked.coordinator.monitor.restarts == 0
    for key, value in plain.arrays.items():
        np.testing.assert_allclose(parked.arrays[key], value, rtol=1e-4, atol=1e-6, err_msg=key)


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_into_graphs_it_learns_the_same_wherever_its_weights_are(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("artos.learners.torch_learner.compiler_faults", lambda _: ())
    torch.compiler.reset()
    plain = learned(name, tmp_path, GPU)
    compiled = learned(name, tmp_path, GPU, Parking, compile="on")
    assert compiled.coordinator.monitor.restarts == 0
    for key, value in plain.arrays.items():
        np.testing.assert_allclose(compiled.arrays[key], value, rtol=1e-3, atol=1e-4, err_msg=key)


@pytest.mark.parametrize(
    "more", [[], ["--set", "compile=on"], ["--set", "bfloat16=true"], ["--set", "recurrent=true"]]
)
def test_a_run_of_several_processes(more: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    settings = ["--total-updates", "5", "--actors", "2", "--device", "cuda", *more]
    assert main(["run", "ppo", *settings, "--run-dir", str(folder), "--json"]) == 0
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["device"], summary["updates"], summary["restarts"]) == (GPU, 5, 0)
    assert json.loads((folder / "config.json").read_text())["device"] == GPU
    assert main(["run", "--resume", str(folder), "--total-updates", "8", "--device", "cpu"]) == 0
    assert json.loads((folder / "summary.json").read_text())["device"] == "cpu"
