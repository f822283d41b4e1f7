from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from artos.losses.gae import advantages
from artos.losses.ppo import ppo_loss
from artos.losses.rounds import following_values

rounds = st.tuples(
    st.integers(1, 3), st.integers(1, 7), st.integers(1, 3), st.integers(0, 2**32 - 1)
)
share = st.floats(0, 1)


def flags(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Terminations and truncations, sometimes both at once."""
    return rng.random(shape) < 0.25, rng.random(shape) < 0.25


def plain_gae(r, v, b, term, trunc, gamma, lam) -> np.ndarray:
    """One environment, straight from the definition: a sum over all later errors."""
    steps = len(r)
    errors = []
    for t in range(steps):
        following = 0.0
        if not term[t]:
            following = b[t] if trunc[t] or t == steps - 1 else v[t + 1]
        errors.append(float(r[t]) + gamma * following - float(v[t]))
    found = np.zeros(steps)
    for t in range(steps):
        weight = 1.0
        for k in range(t, steps):
            found[t] += weight * errors[k]
            if term[k] or trunc[k]:
                break
            weight *= gamma * lam
    return found


@settings(max_examples=150)
@given(rounds, share, share)
def test_advantages_match_the_definition(
    sizes: tuple[int, int, int, int], gamma: float, lam: float
) -> None:
    *shape, seed = sizes
    rng = np.random.default_rng(seed)
    r, v, b = rng.normal(size=(3, *shape)).astype(np.float32)
    term, trunc = flags(rng, tuple(shape))
    found, returns = advantages(r, v, b, term, trunc, gamma, lam)
    for a in range(shape[0]):
        for e in range(shape[2]):
            rows = (x[a, :, e] for x in (r, v, b, term, trunc))
            np.testing.assert_allclose(
                found[a, :, e], plain_gae(*rows, gamma, lam), rtol=1e-4, atol=1e-4
            )
    np.testing.assert_allclose(returns, found + v, rtol=1e-6)
    assert found.dtype == returns.dtype == np.float32


def test_rows_that_only_reset_teach_nothing_and_pass_nothing_on() -> None:
    """An episode of 2 steps, its reset row, and the next episode: as if the row were not there."""
    r = np.array([1, 2, 99, 3, 4], np.float32).reshape(1, 5, 1)
    v = np.array([0.5, 0.25, 7, 0.75, 0.125], np.float32).reshape(1, 5, 1)
    b = np.array([0, 0, 0, 0, 2], np.float32).reshape(1, 5, 1)
    term = np.array([0, 1, 0, 0, 0], bool).reshape(1, 5, 1)
    valid = np.array([1, 1, 0, 1, 1], bool).reshape(1, 5, 1)
    none = np.zeros_like(term)
    with_row, _ = advantages(r, v, b, term, none, 0.9, 0.8, valid)
    keep = valid[0, :, 0]
    without, _ = advantages(*(x[:, keep] for x in (r, v, b, term, none)), 0.9, 0.8)
    np.testing.assert_array_equal(with_row[:, keep], without)
    assert with_row[0, 2, 0] == 0


def test_the_row_after_a_truncation_is_bootstrapped_from_where_it_is_there() -> None:
    """With rows that only reset, the row after a truncated one holds its last observation."""
    v = np.array([1, 2, 4, 8], np.float32).reshape(1, 4, 1)
    b = np.full_like(v, 16)
    trunc = np.array([0, 1, 0, 1], bool).reshape(1, 4, 1)
    none, valid = np.zeros_like(trunc), ~np.array([0, 0, 1, 0], bool).reshape(1, 4, 1)
    assert following_values(v, b, none, trunc, valid)[0, :, 0].tolist() == [2, 4, 8, 16]
    assert following_values(v, b, none, trunc)[0, :, 0].tolist() == [2, 16, 8, 16]
    assert following_values(v, b, trunc, trunc, valid)[0, :, 0].tolist() == [2, 0, 8, 0]


def test_inputs_are_left_as_they_are() -> None:
    rng = np.random.default_rng(0)
    arrays = [*rng.normal(size=(3, 2, 4, 3)).astype(np.float32), *flags(rng, (2, 4, 3))]
    copies = [a.copy() for a in arrays]
    advantages(*arrays, 0.9, 0.9)
    for now, before in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(now, before)


# -- PPO ---------------------------------------------------------------------------------------


def plain_ppo(
    rows: list[dict[str, float]], clip: float, value_clip: float | None
) -> dict[str, float]:
    """Row by row with Python floats."""
    policy = value = kl = outside = entropy = 0.0
    for x in rows:
        ratio = math.exp(x["new"] - x["old"])
        kept = min(max(ratio, 1 - clip), 1 + clip)
        policy -= min(ratio * x["adv"], kept * x["adv"])
        square = (x["v"] - x["ret"]) ** 2
        if value_clip is not None:
            near = x["old_v"] + min(max(x["v"] - x["old_v"], -value_clip), value_clip)
            square = max(square, (near - x["ret"]) ** 2)
        value += 0.5 * square
        kl += ratio - 1 - (x["new"] - x["old"])
        outside += abs(ratio - 1) > clip
        entropy += x["ent"]
    sums = {"policy_loss": policy, "value_loss": value, "entropy": entropy, "approx_kl": kl}
    return {k: s / len(rows) for k, s in {**sums, "clip_fraction": outside}.items()}


NAMES = ("new", "old", "adv", "v", "old_v", "ret", "ent")


@settings(max_examples=150)
@given(
    st.integers(1, 12),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.1, 0.2, 0.5]),
    st.sampled_from([None, 0.1, 0.5]),
    st.booleans(),
)
def test_the_loss_matches_the_definition(
    batch: int, seed: int, clip: float, value_clip: float | None, masked: bool
) -> None:
    rng = np.random.default_rng(seed)
    arrays = rng.normal(size=(7, batch)).astype(np.float32)
    valid = rng.random(batch) < 0.6
    valid[rng.integers(batch)] = True
    if masked:
        arrays[:, ~valid] = np.nan
    rows = [
        dict(zip(NAMES, map(float, column), strict=True))
        for column, kept in zip(arrays.T, valid, strict=True)
        if kept or not masked
    ]
    expected = plain_ppo(rows, clip, value_clip)
    loss, report = ppo_loss(
        *map(torch.from_numpy, arrays), clip, value_clip, 0.5, 0.01,
        torch.from_numpy(valid) if masked else None,
    )  # fmt: skip
    for name, value in expected.items():
        assert float(report[name]) == pytest.approx(value, rel=1e-4, abs=1e-4), name
    total = expected["policy_loss"] + 0.5 * expected["value_loss"] - 0.01 * expected["entropy"]
    assert float(loss) == pytest.approx(total, rel=1e-4, abs=1e-4)


def test_only_the_loss_carries_gradients_and_masked_rows_get_none() -> None:
    leaves = [torch.randn(4, requires_grad=True) for _ in range(3)]
    new, values, entropy = leaves
    fixed = torch.randn(4)
    valid = torch.tensor([True, False, True, True])
    loss, report = ppo_loss(
        new, fixed, fixed, values, fixed, fixed, entropy, 0.2, None, 0.5, 0.01, valid
    )
    loss.backward()
    assert not any(value.requires_grad for value in report.values())
    for leaf in leaves:
        assert leaf.grad is not None
        assert leaf.grad[1] == 0


def test_a_minibatch_of_nothing_but_resets_is_harmless() -> None:
    none = torch.zeros(3, dtype=torch.bool)
    loss, _ = ppo_loss(*torch.randn(7, 3), 0.2, None, 0.5, 0.01, none)
    assert float(loss) == 0


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("cuts", [[5], [1, 2, 9], [0, 3]])
def test_parts_of_a_batch_add_up_to_the_whole(cuts: list[int], masked: bool) -> None:
    torch.manual_seed(4)
    columns = torch.randn(7, 12)
    valid = torch.rand(12) < 0.6 if masked else None
    count = int(valid.sum()) if valid is not None else 12
    whole, wanted = ppo_loss(*columns, 0.2, 0.1, 0.5, 0.01, valid)
    parts = []
    for at in np.split(np.arange(12), cuts):
        few = None if valid is None else valid[at]
        parts.append(ppo_loss(*columns[:, at], 0.2, 0.1, 0.5, 0.01, few, count))
    assert float(sum(loss for loss, _ in parts)) == pytest.approx(float(whole), abs=1e-5)
    for name, value in wanted.items():
        found = sum(report[name] for _, report in parts)
        assert float(found) == pytest.approx(float(value), abs=1e-5), name
