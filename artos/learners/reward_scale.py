"""Rewards in units of how much returns vary."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from artos.policies.moments import Moments


class RewardScale(nn.Module):
    """The deviation of discounted returns, by which rewards are scaled (Engstrom et al. 2020).

    ``returns`` (A, E) goes on from round to round for every environment of every actor.
    """

    returns: Tensor
    moments: Tensor

    def __init__(self, actors: int, envs: int, gamma: float) -> None:
        super().__init__()
        self._gamma = gamma
        self.register_buffer("returns", torch.zeros(actors, envs))
        self.register_buffer("moments", torch.tensor([0.0, 1.0, 0.0]))  # mean, variance, count

    def forward(self) -> Tensor:
        """What rewards are divided by, a scalar."""
        return torch.sqrt(self.moments[1] + 1e-8)

    @torch.no_grad()
    def update(
        self,
        actors: Sequence[int],
        rewards: Tensor,
        ends: Tensor,
        valid: Tensor | None = None,
    ) -> None:
        """Count a round in: rewards and ends of episodes, (A, T, E) of these actors.

        Rows that are not ``valid``, which only reset, are no steps.
        """
        found, at = torch.empty_like(rewards), torch.tensor(list(actors), device=rewards.device)
        current = self.returns[at]
        for step in range(rewards.shape[1]):
            current = current * self._gamma + rewards[:, step]
            found[:, step] = current
            current = current * ~ends[:, step]
        self.returns[at] = current
        counted = found.reshape(-1, 1) if valid is None else found[valid].reshape(-1, 1)
        moments = Moments(*torch.split(self.moments, 1)).with_rows(counted)
        self.moments.copy_(torch.cat(moments))
