"""V-trace against its definition, and what it becomes on-policy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artos.losses.gae import advantages
from artos.losses.vtrace import vtrace

seeds = st.integers(0, 2**32 - 1)
shapes = st.tuples(st.integers(1, 3), st.integers(1, 7), st.integers(1, 3))
share = st.floats(0, 1)
clips = st.sampled_from([0.5, 1.0, 2.0, math.inf])


class Round:
    """Rounds of random rows; with ``resets`` episodes are followed by a row that only resets."""

    def __init__(self, shape: tuple[int, int, int], seed: int, resets: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.ratios, self.r, self.v, self.b = rng.normal(size=(4, *shape)).astype(np.float32)
        self.term, self.trunc = rng.random(shape) < 0.25, rng.random(shape) < 0.25
        self.valid = np.ones(shape, bool) if resets else None
        if self.valid is not None:
            for t in range(1, shape[1]):
                over = (self.term | self.trunc)[:, t - 1]
                self.valid[:, t] = ~over
                self.term[:, t] &= ~over
                self.trunc[:, t] &= ~over

    @property
    def rows(self) -> tuple[Any, ...]:
        """What GAE and V-trace share."""
        return self.r, self.v, self.b, self.term, self.trunc

    def after(self, a: int, t: int, e: int) -> float:
        """The value of the state after a row."""
        if self.term[a, t, e]:
            return 0.0
        hidden = self.trunc[a, t, e] and self.valid is None
        last = t == self.r.shape[1] - 1
        return float(self.b[a, t, e] if hidden or last else self.v[a, t + 1, e])


def plain_targets(
    x: Round, a: int, e: int, gamma: float, lam: float, clip_rho: float, clip_c: float
) -> list[float]:
    """One sequence: the sum of equation 1 of Espeholt et al. 2018, with c of remark 2."""
    steps = x.r.shape[1]
    ratio = [math.exp(value) for value in x.ratios[a, :, e]]
    found = []
    for s in range(steps):
        total, weight = float(x.v[a, s, e]), 1.0
        for t in range(s, steps):
            error = float(x.r[a, t, e]) + gamma * x.after(a, t, e) - float(x.v[a, t, e])
            total += weight * min(clip_rho, ratio[t]) * error
            if x.term[a, t, e] or x.trunc[a, t, e]:
                break
            weight *= gamma * lam * min(clip_c, ratio[t])
        found.append(total)
    return found


def plain_gain(
    x: Round, a: int, t: int, e: int, targets: list[float], gamma: float, clip_rho: float
) -> float:
    """The policy gradient's weight, with the clipped ratio."""
    goes_on = t < x.r.shape[1] - 1 and not (x.term[a, t, e] or x.trunc[a, t, e])
    following = targets[t + 1] if goes_on else x.after(a, t, e)
    rho = min(clip_rho, math.exp(x.ratios[a, t, e]))
    return rho * (float(x.r[a, t, e]) + gamma * following - float(x.v[a, t, e]))


@settings(max_examples=200)
@given(shapes, seeds, share, share, clips, clips, st.booleans())
def test_vtrace_matches_the_definition(
    shape: tuple[int, int, int], seed: int, gamma: float, lam: float, clip_rho: float,
    clip_c: float, resets: bool,
) -> None:  # fmt: skip
    x = Round(shape, seed, resets)
    gains, targets = vtrace(x.ratios, *x.rows, gamma, lam, clip_rho, clip_c, x.valid)
    assert gains.dtype == targets.dtype == np.float32
    for a, e in np.ndindex(shape[0], shape[2]):
        wanted = plain_targets(x, a, e, gamma, lam, clip_rho, clip_c)
        for t in range(shape[1]):
            if x.valid is not None and not x.valid[a, t, e]:
                assert gains[a, t, e] == 0
                assert targets[a, t, e] == x.v[a, t, e]
                continue
            gain = plain_gain(x, a, t, e, wanted, gamma, clip_rho)
            assert targets[a, t, e] == pytest.approx(wanted[t], rel=1e-3, abs=1e-3)
            assert gains[a, t, e] == pytest.approx(gain, rel=1e-3, abs=1e-3)


@settings(max_examples=200)
@given(shapes, seeds, share, share, st.booleans())
def test_without_lag_it_is_gae(
    shape: tuple[int, int, int], seed: int, gamma: float, lam: float, resets: bool
) -> None:
    """Targets are the returns of GAE; at lambda 1 these are n-step, and so are the advantages."""
    x = Round(shape, seed, resets)
    same = np.zeros(shape, np.float32)
    _, targets = vtrace(same, *x.rows, gamma, lam, valid=x.valid)
    np.testing.assert_allclose(
        targets, advantages(*x.rows, gamma, lam, x.valid)[1], rtol=1e-4, atol=1e-4
    )
    whole = vtrace(same, *x.rows, gamma, valid=x.valid)
    for found, wanted in zip(whole, advantages(*x.rows, gamma, 1.0, x.valid), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_without_lag_it_is_the_n_step_return() -> None:
    r, v = np.array([1, 2, 3], np.float32), np.zeros(3, np.float32)
    no, b = np.zeros(3, bool), np.array([0, 0, 10], np.float32)
    rows = (x.reshape(1, 3, 1) for x in (v, r, v, b, no, no))
    targets = vtrace(*rows, 0.5)[1]
    assert targets[0, :, 0].tolist() == [1 + 1 + 0.75 + 1.25, 2 + 1.5 + 2.5, 3 + 5]


def test_a_ratio_beyond_all_bounds_is_only_clipped() -> None:
    x = Round((1, 3, 1), 1)
    far = np.full((1, 3, 1), 1e4, np.float32)
    for found, wanted in zip(
        vtrace(far, *x.rows, 0.9), vtrace(np.zeros_like(far), *x.rows, 0.9), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


def test_inputs_are_left_as_they_are() -> None:
    x = Round((2, 4, 3), 0)
    copies = [array.copy() for array in (x.ratios, *x.rows)]
    vtrace(x.ratios, *x.rows, 0.9)
    for now, before in zip((x.ratios, *x.rows), copies, strict=True):
        np.testing.assert_array_equal(now, before)
