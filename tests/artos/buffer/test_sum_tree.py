"""The sum tree against a plain array."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artos.buffer.samplers.sum_tree import SumTree, _descend

values = st.one_of(st.just(0.0), st.floats(1e-9, 1e9))


@settings(max_examples=60)
@given(
    leaves=st.sampled_from([1, 31, 32, 33, 1024, 1025, 40_000]),
    updates=st.lists(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), values)), max_size=4),
    seed=st.integers(0, 99),
)
def test_tree_equals_an_array(leaves, updates, seed):
    tree, plain = SumTree(leaves), np.zeros(leaves)
    for update in updates:
        numbers = np.array([int(at * leaves) for at, _ in update], np.int64)
        tree.set(numbers, np.array([value for _, value in update]))
        for number, (_, value) in zip(numbers, update, strict=True):
            plain[number] = value
    np.testing.assert_array_equal(tree.leaves[:leaves], plain)
    assert not tree.leaves[leaves:].any()
    assert tree.total == pytest.approx(plain.sum())
    if plain.any():
        drawn = tree.draw(50, np.random.default_rng(seed))
        assert (plain[drawn] > 0).all()
        assert (np.diff(drawn) >= 0).all()


@pytest.mark.parametrize("leaves", [20, 5_000, 50_000])
def test_each_stratum_gives_the_leaf_it_falls_on(leaves: int) -> None:
    rng = np.random.default_rng(1)
    plain = rng.random(leaves) * (rng.random(leaves) < 0.5)
    tree = SumTree(leaves)
    tree.set(np.arange(leaves), plain)
    drawn = tree.draw(300, np.random.default_rng(7))
    strata = (np.arange(300) + np.random.default_rng(7).random(300)) / 300
    want = np.searchsorted(np.cumsum(plain), strata * plain.sum(), side="right")
    assert (drawn == want).mean() > 0.99, "rounding may move a draw to a neighbour"
    assert np.abs(drawn - want).max() < 20


def test_setting_twice_is_setting_once_and_nothing_drifts() -> None:
    rng = np.random.default_rng(0)
    tree, fresh = SumTree(3000), SumTree(3000)
    last = rng.random(3000)
    for _ in range(200):
        some = rng.integers(3000, size=64)
        tree.set(np.concatenate((some, some)), rng.random(128) * 1e12)
    tree.set(np.arange(3000), last)
    fresh.set(np.arange(3000), last)
    assert tree.total == fresh.total
    np.testing.assert_array_equal(
        tree.draw(99, np.random.default_rng(2)), fresh.draw(99, np.random.default_rng(2))
    )


def test_a_draw_that_rounding_put_past_the_end_stays_on_a_leaf_with_a_value() -> None:
    level = np.zeros(64)
    level[[3, 40]] = 0.1, 0.2
    leaves, _ = _descend(level, np.array([0, 1, 1]), np.array([0.1000001, 0.2, -1e-12]))
    assert leaves.tolist() == [3, 40, 40]


class SameEverywhere(np.random.Generator):
    """Draws the same number again and again."""

    def __init__(self, number: float) -> None:
        super().__init__(np.random.PCG64(0))
        self._number = number

    def random(self, count):
        return np.full(count, self._number)


@pytest.mark.parametrize("leaves", [2, 3000])
@pytest.mark.parametrize(
    ("number", "drawn"), [(0.0, [1, 1, 2]), (np.nextafter(1.0, 0.0), [1, 2, 2])]
)
def test_draws_at_the_very_edges_fall_on_leaves_with_a_value(leaves, number, drawn) -> None:
    """Leaf 0 has none; the largest number that can be drawn is rounded to the total."""
    tree = SumTree(max(3, leaves))
    tree.set(np.array([1, 2]), np.array([0.12, 0.18]))
    assert tree.draw(3, SameEverywhere(number)).tolist() == drawn
