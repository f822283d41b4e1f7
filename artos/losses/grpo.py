"""Losses of GRPO (Shao et al. 2024) that bear rows of older weights, as Prime-RL has them."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from artos.losses.masked import masked_mean

Loss = Literal["dppo", "aipo"]


def group_advantages(returns: Tensor, group: int, *, normalize: bool) -> Tensor:
    """How much better each return (N,) is than the mean of its ``group`` neighbours, (N,).

    To ``normalize`` divides by their deviation; a group of equals has no advantages.
    """
    each = returns.reshape(-1, group)
    gains = each - each.mean(1, keepdim=True)
    if normalize:
        gains = gains / (each.std(1, keepdim=True) + 1e-4)
    return gains.reshape(-1)


def grpo_loss(
    log_probs: Tensor,
    behaviour: Tensor,
    advantages: Tensor,
    valid: Tensor,
    *,
    mask_low: float,
    mask_high: float,
    delta: float,
    kl: float,
    loss: Loss = "dppo",
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss to minimise and a report, over tokens (all tensors (B,)) where ``valid`` is True.

    With the ratio r of a token's probability to that with which it was sampled, ``behaviour`` being
    the logarithm of the latter, a token's loss by ``dppo`` is ``-min(r, delta) * advantage + kl *
    log(r) ** 2`` (Kimi K2.5). The first term is left out where the probability has moved far enough
    already: up by more than ``mask_high`` with a positive advantage, down by more than ``mask_low``
    with a negative one (DPPO, binary total variation). By ``aipo`` (LlamaRL, Wu et al. 2025) the
    first term is ``-min(r, delta) * advantage * log_prob`` with the weight ``min(r, delta)`` held
    fixed, so beyond ``delta`` tokens teach on, and nothing is masked.

    The report has, detached, ``policy_loss``, the loss without the second term; ``mismatch_kl``,
    the estimator (r - 1) - log r; ``mask_fraction`` and ``clip_fraction``, the shares of tokens
    that are masked, and that ``delta`` bounds.
    """
    log_ratio = log_probs - behaviour
    ratio = log_ratio.exp()
    bounded = ratio.clamp(max=delta)
    if loss == "aipo":
        far = torch.zeros_like(valid)
        gains = bounded.detach() * advantages * log_probs
    else:
        moved = (log_probs.exp() - behaviour.exp()).detach()
        far = ((advantages > 0) & (moved > mask_high)) | ((advantages < 0) & (moved < -mask_low))
        gains = torch.where(far, 0, bounded * advantages)
    policy_loss = -masked_mean(gains, valid)
    total = policy_loss + kl * masked_mean(log_ratio.square(), valid)
    with torch.no_grad():
        report = {
            "policy_loss": policy_loss.detach(),
            "mismatch_kl": masked_mean(ratio - 1 - log_ratio, valid),
            "mask_fraction": masked_mean(far.float(), valid),
            "clip_fraction": masked_mean((ratio > delta).float(), valid),
        }
    return total, report
