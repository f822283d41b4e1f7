"""The policy and the critics of CrossQ (Bhatt et al. 2024): their layers are normalised."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

from artos.envs.spec import EnvSpec
from artos.policies.batch_renorm import RenormMlp, RenormMlps
from artos.policies.encoders import Encoder
from artos.policies.squashed import Obs, SquashedGaussian


class RenormGaussian(SquashedGaussian):
    """Acts by running statistics of its inputs and hidden layers, which are part of its weights.

    The first ``after`` batches that are learned from are not corrected (``BatchRenorm``).
    """

    layers: RenormMlp

    def __init__(
        self,
        spec: EnvSpec,
        hidden: Sequence[int] = (256, 256),
        *,
        after: int,
        random: int = 0,
        normalize: bool = False,
    ) -> None:
        super().__init__(spec, hidden, random=random, normalize=normalize)
        self.layers = RenormMlp(self.encoder.width, hidden, 2 * self.bounds.size, after=after)

    def sample(
        self, obs: Obs, noise: Tensor | None = None, *, learning: bool = False
    ) -> tuple[Tensor, Tensor]:
        """As without normalisation; ``learning`` is as for ``RenormCritics``."""
        return self.sampled(self.layers(self.encoder(obs), learning=learning), noise)


class RenormCritics(nn.Module):
    """Q-values of continuous actions by two normalised networks (Bhatt et al. 2024).

    The first ``after`` batches that are learned from are not corrected (``BatchRenorm``).
    """

    def __init__(
        self, spec: EnvSpec, hidden: Sequence[int], *, after: int, normalize: bool = False
    ) -> None:
        super().__init__()
        self.encoder = Encoder(spec, normalize=normalize)
        width = self.encoder.width + math.prod(spec.actions.shape)
        self.layers = RenormMlps(2, width, hidden, 1, after=after)

    def forward(self, obs: dict[str, Tensor], actions: Tensor, *, learning: bool = False) -> Tensor:
        """(2, B) values of actions (B, size) in -1 ... 1.

        If it is ``learning``, by the statistics of these rows, which the running ones then follow.
        """
        found: Tensor = self.layers(self.encoder(obs), actions, learning=learning)
        return found.squeeze(-1)
