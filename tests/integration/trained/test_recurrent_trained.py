"""A policy with a memory: the state is the caller's, an evaluation's, or a program's input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.wrappers import RecordEpisodeStatistics

import artos
from artos.errors import Refused


@pytest.fixture
def trained(train: Any) -> artos.Trained:
    return artos.load(train("remembering", "toys_to_load.py:remembering"))


def steps(seed: int, count: int, batch: int) -> Any:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, batch, 3)).astype(np.float32)


def test_the_past_counts_until_the_state_is_empty_again(trained: artos.Trained) -> None:
    seen, other = steps(1, 6, 64), steps(2, 6, 64)
    found = []
    for past in (seen, other):
        state: dict[str, Any] = {}
        for obs in past[:-1]:
            trained.act(obs, state=state)
        found.append((trained.act(seen[-1], state=state), trained.act(seen[-1], state={})))
    (first, fresh), (second, again) = found
    assert (first != second).any()
    np.testing.assert_array_equal(fresh, again)


def test_one_environment_or_a_batch(trained: artos.Trained) -> None:
    together: dict[str, Any] = {}
    alone: list[dict[str, Any]] = [{} for _ in range(3)]
    for obs in steps(1, 5, 3):
        actions = [trained.act(obs[row], state=state) for row, state in enumerate(alone)]
        assert trained.act(obs, state=together).tolist() == actions


def test_state_that_is_missing_or_of_another_size(trained: artos.Trained) -> None:
    with pytest.raises(Refused, match="give act a dict as state, empty where episodes begin"):
        trained.act(np.zeros(3))
    state: dict[str, Any] = {}
    trained.act(np.zeros((4, 3)), state=state)
    with pytest.raises(Refused, match="state has shapes"):
        trained.act(np.zeros((5, 3)), state=state)


def test_an_evaluation_forgets_where_episodes_begin(trained: artos.Trained) -> None:
    import toys_to_load  # noqa: PLC0415

    returns = {}
    for number in range(4):
        env = RecordEpisodeStatistics(toys_to_load.discrete())
        for episode in range(number, 10, 4):
            obs, _ = env.reset(seed=7 + number if episode == number else None)
            over, state = False, {}
            while not over:
                obs, _, terminated, truncated, info = env.step(trained.act(obs, state=state))
                over = terminated or truncated
            returns[episode] = float(info["episode"]["r"])
    found = trained.evaluate(10, seed=7)
    np.testing.assert_allclose(found.returns, [returns[k] for k in range(10)], rtol=1e-5)


@pytest.mark.long
def test_a_program_takes_and_gives_the_state(trained: artos.Trained, tmp_path: Path) -> None:
    trained.export(tmp_path / "policy.pt2")
    program = torch.export.load(tmp_path / "policy.pt2").module()
    ours: dict[str, Any] = {}
    theirs = {key.name: torch.zeros(5, *key.shape) for key in trained.memory}
    for obs in steps(1, 8, 5):
        actions, theirs = program(torch.from_numpy(obs), theirs)
        assert actions.tolist() == trained.act(obs, state=ours).tolist()
    runtime = pytest.importorskip("onnxruntime")
    trained.export(tmp_path / "policy.onnx")
    session = runtime.InferenceSession(tmp_path / "policy.onnx")
    names = [key.name for key in trained.memory]
    assert [each.name for each in session.get_inputs()] == ["observations", *names]
    assert [each.name for each in session.get_outputs()] == [
        "actions",
        *(f"next.{n}" for n in names),
    ]
    state, ours = {key.name: np.zeros((2, *key.shape), np.float32) for key in trained.memory}, {}
    for obs in steps(1, 8, 2):
        actions, *new = session.run(None, {"observations": obs, **state})
        state = dict(zip(names, new, strict=True))
        assert actions.tolist() == trained.act(obs, state=ours).tolist()


@pytest.mark.long
def test_what_ppo_has_learned_with_a_memory_is_used(train: Any, tmp_path: Path) -> None:
    trained = artos.load(train("ppo-memory", "ppo", "--set", "recurrent=true", steps=1024))
    assert len(trained.evaluate(2).returns) == 2
    trained.export(tmp_path / "policy.pt2")
    program = torch.export.load(tmp_path / "policy.pt2").module()
    ours: dict[str, Any] = {}
    theirs = {key.name: torch.zeros(5, *key.shape) for key in trained.memory}
    for obs in np.random.default_rng(1).normal(size=(6, 5, 4)).astype(np.float32):
        actions, theirs = program(torch.from_numpy(obs), theirs)
        assert actions.tolist() == trained.act(obs, state=ours).tolist()
