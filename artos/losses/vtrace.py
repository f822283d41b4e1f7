"""V-trace targets of IMPALA (Espeholt et al. 2018, equation 1)."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def vtrace(
    log_ratios: Tensor,
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminations: Tensor,
    truncations: Tensor,
    gamma: float,
    clip_rho: float = 1.0,
    clip_c: float = 1.0,
    lam: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Value targets and policy-gradient advantages, both (T, B) float32, without gradients.

    All tensors are (T, B). ``log_ratios`` is log π(a|x) − log μ(a|x) of the learner's policy π and
    the actor's μ; ``next_values`` the value of the observation that followed each step: the next
    row's, or the last observation's where an episode was truncated or the sequence ends. It counts
    as 0 where the episode terminated; nothing flows back across the end of an episode.

    ``v_t = V(x_t) + δ_t + γ c_t (v_{t+1} − V(x_{t+1}))`` with
    ``δ_t = ρ_t (r_t + γ V(x_{t+1}) − V(x_t))``; the advantage is
    ``ρ_t (r_t + γ v_{t+1} − V(x_t))``.
    """
    ratios = log_ratios.exp()
    rho, c = ratios.clamp(max=clip_rho), lam * ratios.clamp(max=clip_c)
    following = next_values.masked_fill(terminations, 0.0)
    deltas = rho * (rewards + gamma * following - values)
    weight = (gamma * c).masked_fill(terminations | truncations, 0.0)
    corrections = deltas.clone()
    for t in range(len(rewards) - 2, -1, -1):
        corrections[t] += weight[t] * corrections[t + 1]
    targets = values + corrections
    after = following.clone()
    inside = ~(terminations | truncations)[:-1]
    after[:-1] = torch.where(inside, targets[1:], following[:-1])
    return targets, rho * (rewards + gamma * after - values)
