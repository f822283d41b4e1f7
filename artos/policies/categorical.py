"""A Q-network of distributions: how likely each return is (Bellemare et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from artos.envs.spec import EnvSpec
from artos.policies.acting import ActInfo
from artos.policies.choosing import require_actions
from artos.policies.encoders import Encoder
from artos.policies.masks import masked
from artos.policies.noisy import NoisyMlp

Obs = dict[str, Tensor]


class CategoricalQNetwork(nn.Module):
    """Probabilities of ``atoms`` returns from ``v_min`` to ``v_max``, for each action.

    As in Rainbow (Hessel et al. 2018) a state's value and the actions' advantages are apart, both
    as logits ("Dueling networks" there), and layers are noisy instead of actions.
    """

    outputs: tuple[str, ...] = ()
    support: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        hidden: Sequence[int] = (256, 256),
        *,
        atoms: int = 51,
        v_min: float = -10.0,
        v_max: float = 10.0,
        noise: float = 0.5,
        normalize: bool = False,
    ) -> None:
        super().__init__()
        require_actions(spec, "CategoricalQNetwork", "discrete")
        self.encoder = Encoder(spec, normalize=normalize)
        self.choices, self.atoms = spec.actions.sizes[0], atoms
        self.advantage = NoisyMlp(self.encoder.width, hidden, self.choices * atoms, noise)
        self.value = NoisyMlp(self.encoder.width, hidden, atoms, noise)
        self.register_buffer("support", torch.linspace(v_min, v_max, atoms))

    def log_probs(self, obs: Obs, noisy: bool = False) -> Tensor:
        """Of each return after each action, (B, choices, atoms)."""
        features = self.encoder(obs)
        advantage = self.advantage(features, noisy).unflatten(1, (self.choices, self.atoms))
        value = self.value(features, noisy).unsqueeze(1)
        logits: Tensor = value + advantage - advantage.mean(1, keepdim=True)
        return logits.log_softmax(2)

    def forward(self, obs: Obs, noisy: bool = False) -> Tensor:
        """Expected returns (B, choices), masked."""
        # No product of matrices: autocast would round it, and with it which action is the best.
        return masked((self.log_probs(obs, noisy).exp() * self.support).sum(2), obs)

    def act(self, obs: Obs, info: ActInfo) -> dict[str, Tensor]:
        """``actions`` (B,) int64: the best ones, by noisy weights unless the best are asked for."""
        return {"actions": self(obs, noisy=not info.greedy).argmax(1)}
