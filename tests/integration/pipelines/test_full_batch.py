"""The gradient added up as rows come is that of the full batch, whatever happened in between."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hands import Hands, only

from artos.protocol.invocations import Claim

WORKLOADS: dict[str, dict[str, Any]] = {
    "flat observations": {},
    "rows that are only a reset": {"env": "vector:CartPole-v1", "steps": 64},
    "continuous actions": {"env": "Pendulum-v1"},
    "pictures": {"env": "evaluation.workloads.catch:make", "actors": 2, "envs": 1, "steps": 24},
    "one actor": {"actors": 1},
    "nothing normalised": {"normalize_advantages": False},
    "values clipped": {"value_clip": 0.05},
    "scaled by statistics that count nothing yet": {"env": "Pendulum-v1", "normalize": True},
}


@contextmanager
def hands(folder: Path, **settings: Any) -> Iterator[Hands]:
    with Hands(folder, **settings, pipeline="full") as found:
        yield found


def expected(folder: Path, **settings: Any) -> np.ndarray[Any, Any]:
    """The gradient of an update without any pipeline."""
    with Hands(folder, **settings) as plain:
        plain.fire("update", *plain.sample())
        return only(plain.gradients)


def assert_same(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> None:
    assert np.abs(wanted).max() > 1e-3
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] * (name == "pictures")) for name in WORKLOADS],
)
def test_the_sum_is_the_gradient_of_the_whole(name: str, tmp_path: Path) -> None:
    settings = WORKLOADS[name]
    wanted = expected(tmp_path, **settings)
    with hands(tmp_path, **settings) as early:
        claims = early.sample()
        early.fire("preprocess", *claims)
        for claim in reversed(claims):
            early.fire("accumulate", claim)
        assert early.gradients == []
        done = early.fire("update", *claims)
        assert_same(only(early.gradients), wanted)
    assert done.version == 1
    assert done.metrics.keys() >= {"policy_loss", "approx_kl", "explained_variance", "lr"}


def test_what_is_reported_is_that_of_the_whole(tmp_path: Path) -> None:
    with Hands(tmp_path) as plain:
        wanted = plain.fire("update", *plain.sample()).metrics
    with hands(tmp_path) as early:
        claims = early.sample()
        early.fire("preprocess", *claims)
        early.fire("accumulate", *claims[1:])
        early.fire("accumulate", claims[0])
        found = early.fire("update", *claims).metrics
    assert found == pytest.approx(wanted, rel=1e-4, abs=1e-6)


SETS = [c for r in range(4) for c in itertools.combinations(range(3), r)]


@pytest.mark.parametrize("before", SETS, ids=str)
@pytest.mark.parametrize("after", ["nothing", "learner killed", "actor placed anew"])
def test_whatever_is_missing_is_made_up_for(
    before: tuple[int, ...], after: str, tmp_path: Path
) -> None:
    wanted = expected(tmp_path)
    with hands(tmp_path) as early:
        claims = early.sample()
        early.fire("preprocess", *claims)
        for actor in before:
            early.fire("accumulate", claims[actor])
        if after == "learner killed":
            early.begin_learner()
        elif after == "actor placed anew":
            early.node.blocks[1].begin_incarnation()
        early.fire("accumulate", claims[2])
        early.fire("update", *claims)
        assert_same(only(early.gradients), wanted)


def test_nothing_is_added_before_the_advantages_of_all_are_known(tmp_path: Path) -> None:
    wanted = expected(tmp_path)
    with hands(tmp_path) as early:
        claims = early.sample()
        early.fire("accumulate", claims[0])
        early.fire("preprocess", *claims)
        early.fire("accumulate", claims[1])
        assert early.ppo._accumulator.added == {claims[1]}
        early.fire("update", *claims)
        assert_same(only(early.gradients), wanted)


def test_a_sum_of_another_batch_is_of_no_use(tmp_path: Path) -> None:
    """Rows of the next round come before this round's are complete, as with max_lag=1."""
    with Hands(tmp_path, max_lag=1) as plain:
        first, second = plain.sample(), plain.sample()
        plain.fire("update", *first)
        plain.fire("update", *second)
        wanted = plain.gradients
    with hands(tmp_path, max_lag=1) as early:
        first, second = early.sample(), early.sample()
        early.fire("preprocess", *first)
        early.fire("accumulate", first[0])
        early.fire("preprocess", *second)
        early.fire("accumulate", second[0])
        early.fire("accumulate", first[1])
        early.fire("accumulate", second[1])
        early.fire("update", *first)
        early.fire("accumulate", second[2])
        early.fire("update", *second)
        assert len(early.gradients) == 2
        for found, one in zip(early.gradients, wanted, strict=True):
            assert_same(found, one)


def test_what_was_added_for_another_batch_is_not_in_this_sum(tmp_path: Path) -> None:
    wanted = expected(tmp_path, max_lag=1)
    with hands(tmp_path, max_lag=1) as early:
        first, second = early.sample(), early.sample()
        early.fire("preprocess", *second)
        early.fire("accumulate", second[0])
        early.fire("preprocess", *first)
        early.fire("accumulate", first[0])
        early.fire("update", *first)
        assert_same(only(early.gradients), wanted)


def test_rewards_that_changed_after_rows_were_added_change_the_sum(tmp_path: Path) -> None:
    """Of another actor only rewards had come when it was placed anew; the scale is another now."""

    def again(some: Hands) -> None:
        some.node.blocks[1].begin_incarnation()
        some.node.blocks[1].arrays["rewards"][...] *= 3.0

    with Hands(tmp_path) as plain:
        claims = plain.sample()
        again(plain)
        plain.fire("update", *claims)
        wanted = only(plain.gradients)
    with hands(tmp_path) as early:
        claims = early.sample()
        early.fire("preprocess", *claims)
        early.fire("accumulate", claims[0])
        again(early)
        early.fire("update", *claims)
        assert_same(only(early.gradients), wanted)


def test_a_batch_without_some_rows_is_scaled_by_those_it_has(tmp_path: Path) -> None:
    """Rows too old are dropped from an update only after they were preprocessed with the others."""
    with Hands(tmp_path) as plain:
        claims = plain.sample()
        plain.fire("update", *claims[1:])
        wanted = only(plain.gradients)
    with hands(tmp_path) as early:
        claims = early.sample()
        early.fire("preprocess", *claims)
        early.fire("accumulate", claims[1])
        early.fire("update", *claims[1:])
        assert_same(only(early.gradients), wanted)


def test_later_epochs_are_those_of_the_whole_batch(tmp_path: Path) -> None:
    with Hands(tmp_path, epochs=3) as plain:
        plain.fire("update", *plain.sample())
        wanted, weights = plain.gradients, plain.params
    with hands(tmp_path, epochs=3) as early:
        claims = early.sample()
        early.fire("preprocess", *claims)
        early.fire("accumulate", *claims)
        early.fire("update", *claims)
        assert len(early.gradients) == 3
        for found, one in zip(early.gradients, wanted, strict=True):
            assert_same(found, one)
        np.testing.assert_allclose(early.params, weights, atol=1e-5)


def test_rows_learned_from_are_not_kept(tmp_path: Path) -> None:
    with hands(tmp_path) as early:
        for _ in range(3):
            claims: tuple[Claim, ...] = early.sample()
            early.fire("preprocess", *claims)
            early.fire("accumulate", *claims)
            early.fire("update", *claims)
            early.acknowledge(claims)
        assert repr(early.ppo._advantages) == "<AdvantageCache 0 claims>"
        assert early.ppo._accumulator is None
