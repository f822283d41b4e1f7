"""Evolution strategies in numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from artos.losses.evolution import Round, centred_ranks, returns_of, uphill


def test_ranks_are_centred_and_shared_by_equals() -> None:
    found = centred_ranks(np.array([30.0, 10.0, 10.0, 1e6, 20.0]))
    np.testing.assert_allclose(found, [0.25, -0.375, -0.375, 0.5, 0.0])  # of ranks 3, .5, .5, 4, 2
    assert not centred_ranks(np.full(4, 500.0)).any(), "the best there can be is kept"


def test_the_gradient_of_two_pairs() -> None:
    """1 / (4 * 0.5) * ((0.5 - -0.5) * (1, 2, 0) + (-0.25 - 0.25) * (0, 2, 4))."""
    ranks = np.array([[0.5, -0.5], [-0.25, 0.25]])
    noises = [np.array([1, 2, 0], np.float32), np.array([0, 2, 4], np.float32)]
    np.testing.assert_allclose(uphill(ranks, noises, 3, 0.5), [0.5, 0.5, -1.0])


def test_a_slope_is_found_by_many_pairs() -> None:
    noises = [Round(1, 0, 0, 0).noise(pair, 3) for pair in range(4_000)]
    slope, sigma = np.array([3.0, 0.0, -4.0]), 0.1
    values = np.array([(sigma * noise @ slope, -sigma * noise @ slope) for noise in noises])
    found = uphill(values, noises, 3, sigma)
    np.testing.assert_allclose(found, slope, atol=0.3)


def test_returns_are_those_of_whole_episodes() -> None:
    rewards = np.array([[1, 2, 4, 8], [1, 2, 4, 8], [1, 2, 4, 8], [1, 2, 4, 8]], np.float32).T[None]
    ends = np.zeros((1, 4, 4), bool)
    ends[0, 2, 0] = True  # the next one is cut off
    ends[0, [0, 2], 1] = True  # two of them: 1, and 2 + 4
    ends[0, 3, 2] = True
    np.testing.assert_allclose(returns_of(rewards, ends), [[7.0, 3.5, 15.0, 15.0]])


@pytest.mark.parametrize("other", [(2, 0, 0, 0), (1, 1, 0, 0), (1, 0, 8, 0), (1, 0, 0, 8)])
def test_noise_follows_from_seed_actor_version_row_and_pair(other: tuple[int, ...]) -> None:
    first = Round(1, 0, 0, 0)
    noise = first.noise(0, 1_000)
    assert np.array_equal(noise, first.noise(0, 1_000))
    assert (noise.dtype, round(float(noise.std()), 1)) == (np.float32, 1.0)
    for different in (Round(*other).noise(0, 1_000), first.noise(1, 1_000)):
        assert abs(np.corrcoef(noise, different)[0, 1]) < 0.15
    assert Round(*other).reset_seed() != first.reset_seed()
