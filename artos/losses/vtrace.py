"""V-trace targets of IMPALA (Espeholt et al. 2018, equation 1 and remark 2)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from artos.losses.rounds import Flags, Floats, following_values, sum_backwards


def vtrace(
    log_ratios: NDArray[Any],
    rewards: NDArray[Any],
    values: NDArray[Any],
    bootstraps: NDArray[Any],
    terminations: Flags,
    truncations: Flags,
    gamma: float,
    lam: float = 1.0,
    clip_rho: float = 1.0,
    clip_c: float = 1.0,
    valid: Flags | None = None,
) -> tuple[Floats, Floats]:
    """Policy-gradient advantages and value targets of rounds of T steps, both (A, T, E) float32.

    All arrays are (A, T, E): A rounds, E environments; or (T, n), whole episodes padded with
    zeros. ``log_ratios`` is log π(a|x) − log μ(a|x) of
    the learner's policy π and the actor's μ, ``values`` V(x) by the learner's network. V(x_{t+1})
    comes from ``following_values``: it is the next row's and, where no row holds x_{t+1}, after a
    truncation and at the end of a round, the actor's estimate ``bootstraps``, which is as old as
    the policy that sampled the round.

    ``v_t = V(x_t) + δ_t + γ c_t (v_{t+1} − V(x_{t+1}))`` with
    ``δ_t = ρ_t (r_t + γ V(x_{t+1}) − V(x_t))``, ρ the ratio up to ``clip_rho`` and c ``lam`` times
    the ratio up to ``clip_c``; nothing flows back across the end of an episode. The advantage is
    ``ρ_t (r_t + γ v_{t+1} − V(x_t))``. Where ``valid`` is False (a row that was only a reset) the
    advantage is 0 and the target is the value itself.
    """
    following = following_values(values, bootstraps, terminations, truncations, valid)
    ends = terminations | truncations
    rho = np.exp(np.minimum(log_ratios, math.log(clip_rho)))  # a large ratio must not overflow
    weights = gamma * lam * np.exp(np.minimum(log_ratios, math.log(clip_c)))
    corrections = (rho * (rewards + gamma * following - values)).astype(np.float32)
    sum_backwards(corrections, np.where(ends, 0, weights).astype(np.float32))
    if valid is not None:
        corrections *= valid
    targets = values + corrections
    inside = ~ends[..., :-1, :]
    np.copyto(following[..., :-1, :], targets[..., 1:, :], where=inside)
    gains = rho * (rewards + gamma * following - values)
    return gains if valid is None else gains * valid, targets
