"""The clipped surrogate loss of PPO (Schulman et al. 2017), and its gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_REPORT = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")


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
    loss, *means = _Loss.apply(  # type: ignore[no-untyped-call]
        log_probs, old_log_probs, advantages, values, old_values, returns, entropy,
        clip, value_clip, vf_coef, ent_coef, valid, count,
    )  # fmt: skip
    return loss, dict(zip(_REPORT, means, strict=True))


class Clipped:
    """The loss of a minibatch and its gradients, without autograd; arguments as of ``ppo_loss``."""

    def __init__(
        self, log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, values: Tensor,
        old_values: Tensor, returns: Tensor, entropy: Tensor, clip: float,
        value_clip: float | None, vf_coef: float, ent_coef: float, valid: Tensor | None = None,
        count: float | None = None,
    ) -> None:  # fmt: skip
        self._log_ratio, self._entropy = log_probs - old_log_probs, entropy
        self._ratio = self._log_ratio.exp()
        self._clipped = self._ratio.clamp(1 - clip, 1 + clip)
        self._plain, self._bounded = self._ratio * advantages, self._clipped * advantages
        self._errors = self._felt = values - returns
        self._worse: Tensor | None = None
        if value_clip is not None:
            moved = values - old_values
            self._worse = old_values + moved.clamp(-value_clip, value_clip) - returns
            # A value that is clipped, and for the worse, has no say any more.
            lost = (self._worse.abs() > self._errors.abs()) & (moved.abs() > value_clip)
            self._felt = self._errors.masked_fill(lost, 0)
        self._vf_coef, self._ent_coef, self._valid = vf_coef, ent_coef, valid
        rows: Tensor | float = len(log_probs) if valid is None else valid.sum().clamp(min=1)
        self._share = 1 / (rows if count is None else count)

    def report(self) -> dict[str, Tensor]:
        """As that of ``ppo_loss``."""
        squares = self._errors.square()
        if self._worse is not None:
            squares = torch.maximum(squares, self._worse.square())
        rows = torch.stack(
            (
                -torch.minimum(self._plain, self._bounded), 0.5 * squares, self._entropy,
                self._ratio - 1 - self._log_ratio, (self._ratio != self._clipped).float(),
            )
        )  # fmt: skip
        means = self._counted(rows).sum(1) * self._share
        return dict(zip(_REPORT, means.unbind(), strict=True))

    def gradients(self, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
        """Of ``scale`` times the loss, by log-probabilities, values and entropies, each (B,)."""
        share = scale * self._share
        by_log_prob = torch.where(self._plain <= self._bounded, self._plain, 0)
        by_entropy = torch.full_like(self._entropy, 1)
        return (
            self._counted(by_log_prob) * -share,
            self._counted(self._felt) * (self._vf_coef * share),
            self._counted(by_entropy) * (-self._ent_coef * share),
        )

    def _counted(self, rows: Tensor) -> Tensor:
        # Select, do not multiply: a masked row may hold NaN.
        return rows if self._valid is None else torch.where(self._valid, rows, 0)


class _Loss(torch.autograd.Function):
    """One step of autograd instead of thirty."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> tuple[Tensor, ...]:
        found = Clipped(*given)
        policy, value, entropy, *_ = means = (*found.report().values(),)
        ctx.save_for_backward(*found.gradients())
        ctx.mark_non_differentiable(*means)
        vf_coef, ent_coef = given[9:11]
        return policy + vf_coef * value - ent_coef * entropy, *means

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        by_log_prob, by_value, by_entropy = (gradient * each for each in ctx.saved_tensors)
        none = None
        return (
            by_log_prob, none, none, by_value, none, none, by_entropy,
            none, none, none, none, none, none,
        )  # fmt: skip
