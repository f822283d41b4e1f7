"""What was trained acts as its actors do, and is an ordinary network."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import ROOT
from torch import nn

import artos
from artos.envs.make import make_vector
from artos.envs.stepper import Stepper, action_writer
from artos.errors import CheckpointFault, NoSuchRun, Refused
from artos.policies.acting import ActInfo
from artos.policies.flat import named_tensors
from artos.runs.checkpoint import MANIFEST
from artos.runs.loader import load_workload
from artos.specs.reference import Reference

KINDS = ["discrete", "grid", "bits", "continuous", "parts", "picture", "three"]
Toy = Callable[[str], str]


def actors_policy(trained: artos.Trained) -> Any:
    """What the run's actors act with, built as they build it, from the arrays in the file."""
    config = trained.config
    own = {name: config["settings"][name] for name in ("env", "envs", "total_steps")}
    actor: Any = load_workload(Reference("triggers.algorithms.ppo:workload", own)).actor
    module = actor.build_module(config["seed"])
    arrays = saved(trained)
    flat = np.concatenate([arrays[f"model.{name}"].ravel() for name in named_tensors(module)])
    policy = actor.make_policy(module, seed=1)
    policy.bind(flat)
    return policy


def saved(trained: artos.Trained) -> dict[str, Any]:
    from safetensors.numpy import load_file  # noqa: PLC0415

    folder = Path(trained.name) / "checkpoint"
    return load_file(folder / json.loads((folder / MANIFEST).read_text())["file"])


@pytest.mark.parametrize("kind", KINDS)
def test_actions_are_those_of_an_actor(kind: str, toy: Toy) -> None:
    trained = artos.load(toy(kind))
    policy = actors_policy(trained)
    stepper = Stepper(make_vector(f"toys_to_load:{kind}", 5), kind)
    space, write = stepper.env.single_action_space, action_writer(trained.spec.actions)
    for seed in range(8):
        parts = stepper.reset(seed)
        raw, _ = stepper.env.reset(seed=seed)
        expected = write(policy.act(parts, ActInfo(greedy=True))["actions"].copy())
        np.testing.assert_array_equal(trained.act(raw), expected)
        rows = [trained.act(one(raw, row)) for row in range(5)]
        np.testing.assert_allclose(np.stack(rows), expected, atol=1e-6)
        assert all(space.contains(row) for row in rows)
        assert all(space.contains(trained.act(one(raw, 0), greedy=False)) for _ in range(5))
    stepper.close()


def one(obs: Any, row: int) -> Any:
    return {n: one(part, row) for n, part in obs.items()} if isinstance(obs, dict) else obs[row]


def test_sampled_actions_differ_and_are_repeated_by_the_seed(toy: Toy) -> None:
    obs = np.zeros((64, 3))
    drawn = [artos.load(toy("discrete"), seed=seed).act(obs, greedy=False) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()
    assert len(set(drawn[0].tolist())) > 1


def test_a_handwritten_network_takes_the_weights(toy: Toy) -> None:
    trained = artos.load(toy("discrete"))
    state = trained.state_dict()
    body = [nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()]
    own = nn.ModuleDict({
        "policy": nn.Sequential(*body, nn.Linear(64, 4)),
        "value": nn.Sequential(*(type(each)(*sides(each)) for each in body), nn.Linear(64, 1)),
    })  # fmt: skip
    own.load_state_dict(state)
    obs = np.random.default_rng(0).normal(size=(256, 3)).astype(np.float32)
    with torch.inference_mode():
        seen = torch.from_numpy(obs)
        logits, values = own["policy"](seen), own["value"](seen).squeeze(1)
    acted = actors_policy(trained).act({"observations": obs}, ActInfo(greedy=True))
    np.testing.assert_allclose(values, acted["values"], atol=1e-5)
    np.testing.assert_array_equal(logits.argmax(1).numpy() + 5, trained.act(obs))


def sides(layer: nn.Module) -> tuple[int, ...]:
    return (layer.in_features, layer.out_features) if isinstance(layer, nn.Linear) else ()


def test_the_network_is_the_users_own_to_change(toy: Toy) -> None:
    trained = artos.load(toy("discrete"))
    obs = np.random.default_rng(1).normal(size=(32, 3))
    before = trained.act(obs)
    with torch.no_grad():
        for weight in trained.module.parameters():
            weight.zero_()
    np.testing.assert_array_equal(trained.act(obs), before)


def test_a_policy_of_ones_own_is_imported_from_where_it_was(home: Path, train: Any) -> None:
    """In a process of its own, elsewhere, and beside files that are called like ours."""
    run = train("dqn", "my_dqn.py:workload", steps=1100)
    for name in ("head", "deploy", "workers", "evaluation"):
        (home / f"{name}.py").write_text("raise RuntimeError('a file of the user')\n")
    code = f"""if True:
        import artos, numpy as np, sys
        trained = artos.load({run!r}, trust=True)
        print(type(trained.module).__name__, *trained.state_dict())
        with open({str(home / "seen.npy")!r}, "rb") as file:
            obs = np.load(file)
        print(trained.act(obs).tolist())
        assert not any(name in sys.modules for name in ("head", "deploy", "workers"))
    """
    obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    np.save(home / "seen.npy", obs)
    (home / "elsewhere").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=home / "elsewhere", env={"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    for name in ("head", "deploy", "workers", "evaluation"):
        (home / f"{name}.py").unlink()
    assert done.returncode == 0, done.stderr
    names, actions = done.stdout.splitlines()
    assert names == "QNetwork " + " ".join(
        f"layers.{i}.{what}" for i in (0, 2, 4) for what in ("weight", "bias")
    )
    trained = artos.load(run)
    assert json.loads(actions) == trained.act(obs).tolist()
    own = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(),
                        nn.Linear(128, 2))  # fmt: skip
    own.load_state_dict({n.removeprefix("layers."): w for n, w in trained.state_dict().items()})
    with torch.inference_mode():
        assert own(torch.from_numpy(obs)).argmax(1).tolist() == trained.act(obs).tolist()


def test_code_that_has_moved_is_named(home: Path, train: Any, tmp_path: Path) -> None:
    run = shutil.copytree(train("dqn", "my_dqn.py:workload", steps=1100), tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"folder": "/nowhere"}))
    with pytest.raises(Refused, match=r"there is no file /nowhere/my_dqn\.py"):
        artos.load(run)
    assert artos.load(run, code=home, trust=True).act(np.zeros(4)) in (0, 1)


def test_the_environment_is_not_made(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    run = toy("discrete")
    monkeypatch.setattr("artos.actors.rollout.describe", None)
    monkeypatch.setattr(sys.modules["toys_to_load"], "discrete", None)
    assert artos.load(run).act(np.zeros(3)) in range(5, 9)


def test_what_a_run_was_is_said(toy: Toy) -> None:
    trained = artos.load(toy("continuous"))
    assert trained.config == json.loads((Path(trained.name) / "config.json").read_text())
    assert trained.config["settings"]["hidden"] == [64, 64]
    assert trained.steps >= 256
    assert "ppo on toys_to_load:continuous" in repr(trained)


# -- what cannot be loaded ---------------------------------------------------------------------


def test_no_run(home: Path, toy: Toy) -> None:
    toy("discrete")
    with pytest.raises(NoSuchRun, match="give the folder of a run: did you mean discrete"):
        artos.load("discret")


def test_nothing_saved_yet(toy: Toy, tmp_path: Path) -> None:
    run = shutil.copytree(toy("discrete"), tmp_path / "run")
    (run / "checkpoint" / MANIFEST).unlink()
    with pytest.raises(CheckpointFault, match="there is no checkpoint"):
        artos.load(run)


@pytest.mark.parametrize("text", ["{", '{"workload": "ppo"}'])
def test_a_damaged_configuration(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(CheckpointFault, match=r"is damaged|has no folder, settings"):
        artos.load(tmp_path)


def test_an_actor_without_a_policy(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    run = toy("discrete")
    monkeypatch.delattr("artos.actors.rollout.RolloutActor.make_policy")
    with pytest.raises(Refused, match="RolloutActor has no make_policy: no policy can be loaded"):
        artos.load(run)


def test_a_network_that_is_none_of_torchs(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    run = toy("discrete")
    monkeypatch.setattr("artos.actors.rollout.RolloutActor.build_module", lambda self, seed: [])
    with pytest.raises(Refused, match=r"build_module returned a list, not a torch\.nn\.Module"):
        artos.load(run)


def test_a_network_that_the_code_does_not_build_any_more(toy: Toy, tmp_path: Path) -> None:
    run = shutil.copytree(toy("discrete"), tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    config["settings"]["hidden"] = [8]
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointFault, match=r"body\.bias0 is \(2, 1, 64\), the code builds"):
        artos.load(run, trust=True)
