"""The clipped surrogate loss of PPO (Schulman et al. 2017)."""

from __future__ import annotations

import torch
from torch import Tensor

from artos.losses.masked import masked_mean


def ppo_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    values: Tensor,
    old_values: Tensor,
    returns: Tensor,
    entropy: Tensor,
    clip: float,
    value_clip: float | None,
    vf_coef: float,
    ent_coef: float,
    valid: Tensor | None = None,
    count: float | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss to minimise and a report, over a minibatch of B rows (all arguments (B,)).

    ``policy − ent_coef · entropy + vf_coef · value`` where the value loss is half the squared
    error or, with ``value_clip``, half the larger of the plain and the clipped one. Rows where
    ``valid`` is False do not count. The report has, detached, ``policy_loss``, ``value_loss``,
    ``entropy``, ``approx_kl`` (the estimator (r − 1) − log r) and ``clip_fraction`` (rows outside
    1 ± clip). With ``count`` the B rows are a part of a batch of ``count`` rows: losses, reports
    and gradients of all parts then add up to those of the batch.
    """
    log_ratio = log_probs - old_log_probs
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - clip, 1 + clip)
    surrogate = torch.minimum(ratio * advantages, clipped * advantages)
    squares = (values - returns).square()
    if value_clip is not None:
        near = old_values + (values - old_values).clamp(-value_clip, value_clip)
        squares = torch.maximum(squares, (near - returns).square())
    policy_loss = -masked_mean(surrogate, valid, count)
    value_loss = 0.5 * masked_mean(squares, valid, count)
    mean_entropy = masked_mean(entropy, valid, count)
    loss = policy_loss + vf_coef * value_loss - ent_coef * mean_entropy
    with torch.no_grad():
        report = {
            "policy_loss": policy_loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy": mean_entropy.detach(),
            "approx_kl": masked_mean(ratio - 1 - log_ratio, valid, count),
            "clip_fraction": masked_mean((ratio != clipped).float(), valid, count),
        }
    return loss, report
