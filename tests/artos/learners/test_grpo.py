"""GRPO on rows: which tokens count, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import artos
from artos.envs.make import describe
from artos.learners.completions import completions
from artos.learners.context import LearnerContext
from artos.policies.text import TextPolicy, lengths_of
from artos.specs.actor_count import Manual
from artos.specs.keys import OBSERVATIONS

SPEC = describe("ReverseText-v0(digits=2)")
SHOWN = np.array([
    [[3, 4, 11, 0, 0], [3, 4, 11, 4, 0], [5, 6, 11, 0, 0]],  # ends with its second token
    [[3, 4, 11, 0, 0], [5, 6, 11, 0, 0], [5, 6, 11, 9, 0]],  # ends with its first one
    [[3, 4, 11, 0, 0], [3, 4, 11, 7, 0], [3, 4, 11, 7, 8]],  # does not end
])  # fmt: skip
ACTIONS = np.array([[4, 3, 1], [0, 9, 9], [7, 8, 1]])
ENDS = np.array([[0, 1, 0], [1, 0, 1], [0, 0, 0]], bool)
PAID = np.array([[0, 1, 0], [0.2, 0, 9], [0, 0, 0.5]], np.float32)


class Rows:
    """A batch (A, T, E) of one actor, as a learner reads it."""

    def __init__(self, **arrays: Any) -> None:
        self.arrays = {name: np.moveaxis(array, 0, 1)[None] for name, array in arrays.items()}

    def gather(self, name: str) -> Any:
        return self.arrays[name]


def made(**settings: Any) -> Any:
    torch.manual_seed(1)
    plan: Any = SimpleNamespace(data_keys=(), state_keys=(), wanted=(), seed=3, envs=3)
    learner: Any = artos.GRPO(**settings)
    learner.setup(LearnerContext(plan, TextPolicy(SPEC, width=8, heads=2), 5))
    return learner


def test_a_completion_ends_where_the_environment_first_does() -> None:
    found = completions(SHOWN, ACTIONS, PAID, ENDS)
    assert found.valid.tolist() == [[True, True, False], [True, False, False], [True] * 3]
    assert found.text.tolist() == [[3, 4, 11, 4, 0], [3, 4, 11, 0, 0], [3, 4, 11, 7, 8]]
    assert found.lengths[found.valid].tolist() == [3, 4, 3, 3, 4, 5]
    assert found.returns.tolist() == pytest.approx([1.0, 0.2, 0.5])


def test_tokens_of_the_environment_are_read_and_not_learned() -> None:
    """It answers the first token with 9 and 8."""
    shown = np.array([[[3, 11, 0, 0, 0, 0], [3, 11, 4, 9, 8, 0]]])
    found = completions(shown, np.array([[4, 5]]), PAID[:1, :2], ENDS[:1, :2])
    assert found.lengths.tolist() == [[2, 5]]
    assert found.text.tolist() == shown[:, 1].tolist()


def test_a_text_that_is_rewritten_is_refused() -> None:
    other = SHOWN.copy()
    other[2, 2, 3] = 1
    with pytest.raises(ValueError, match="a text is not the one before it and the token"):
        completions(other, ACTIONS, PAID, ENDS)


def test_what_is_learned_is_what_was_sampled() -> None:
    """With the policy's own log-probabilities nothing mismatches, whatever later rows hold."""
    learner = made(group=3)
    shown = torch.from_numpy(SHOWN).flatten(0, 1)
    with torch.no_grad():
        scores = learner.module.scores(shown, lengths_of(shown)[:, None])[:, 0]
    logs = scores.log_softmax(-1).gather(1, torch.from_numpy(ACTIONS).reshape(-1, 1))
    behaviour = logs.reshape(3, 3).numpy()
    behaviour[~completions(SHOWN, ACTIONS, PAID, ENDS).valid] = 99.0
    batch = Rows(**{OBSERVATIONS: SHOWN}, actions=ACTIONS, rewards=PAID, log_probs=behaviour,
                 terminations=ENDS, truncations=np.zeros_like(ENDS))  # fmt: skip
    before = learner.network.values.clone()
    metrics = learner.update(batch, SimpleNamespace(progress=0.0))
    assert abs(metrics["mismatch_kl"]) < 1e-6
    assert metrics["exact_match"] == pytest.approx(1 / 3)
    assert metrics["mask_fraction"] == metrics["clip_fraction"] == 0
    gains = (np.array([1.0, 0.2, 0.5]) - 1.7 / 3) / (np.std([1.0, 0.2, 0.5], ddof=1) + 1e-4)
    assert metrics["policy_loss"] == pytest.approx(-(gains * [2, 1, 3]).sum() / 6, rel=1e-4)
    assert not torch.equal(learner.network.values, before)
    assert learner.fresh


def test_groups_divide_the_environments_of_an_actor() -> None:
    plan: Any = SimpleNamespace(envs=24, state_keys=(), at_work=Manual(1, 1), replicas=1)
    assert artos.GRPO(group=8).faults(plan) == []
    (fault,) = artos.GRPO(group=16).faults(plan)
    assert fault == "24 envs of an actor do not divide into groups of 16"
    plan.replicas, plan.replicas_setting = 25, "learners=25"
    (fault,) = artos.GRPO(group=8).faults(plan)
    assert "24 completions, which learners=25 cannot divide" in fault
