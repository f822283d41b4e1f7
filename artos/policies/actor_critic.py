"""The policy of the built-in algorithms: an actor and a critic for any supported spaces."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from artos.envs.spec import EnvSpec
from artos.policies.acting import ACTOR_CRITIC, ActInfo
from artos.policies.distributions import OUT, head_for
from artos.policies.encoders import Encoder, Normalizer, flatten_all
from artos.policies.inputs import flat_width
from artos.policies.masks import masked
from artos.policies.twin_mlp import TwinMlp, apply_heads, orthogonal

Obs = dict[str, Tensor]


class ActorCritic(nn.Module):
    """``act`` for actors, ``evaluate`` and ``value`` for learners.

    Observations are a dict by data key of (B, *value_shape) in the stored dtypes. Without images:
    separate policy and value MLPs over all parts flattened. With images: one Nature CNN per image,
    shared by policy and value unless they are ``apart``, flat parts appended to its features.
    Actions that an ``action_mask`` forbids are never chosen, and count in no probability and no
    entropy.

    With ``normalize`` flattened numbers are scaled by running statistics. ``correlation`` is that
    of the noise in continuous actions (``DiagGaussian``).
    """

    def __init__(
        self,
        spec: EnvSpec,
        hidden: Sequence[int] = (64, 64),
        *,
        cnn: bool = False,
        normalize: bool = False,
        correlation: float = 0.0,
        apart: bool = False,
    ) -> None:
        super().__init__()
        self.spec, self.generator = spec, None
        self.body: TwinMlp | Encoder
        if cnn:
            self.body = Encoder(spec, normalize=normalize)
        else:
            self.body = TwinMlp(sum(flat_width(part) for part in spec.features), hidden)
        self.critic = Encoder(spec, normalize=normalize) if apart and cnn else None
        self.normalizer = Normalizer(spec.features) if normalize and not cnn else None
        width = self.body.width
        self.head = head_for(spec.actions, correlation)
        self.policy_weight = nn.Parameter(orthogonal(torch.empty(width, self.head.width), 0.01))
        self.policy_bias = nn.Parameter(torch.zeros(self.head.width))
        self.value_weight = nn.Parameter(orthogonal(torch.empty(width, 1), 1.0).squeeze(1))
        self.value_bias = nn.Parameter(torch.zeros(1))

    generator: torch.Generator | None
    """Makes sampling reproducible; None uses torch's global one."""
    outputs = ACTOR_CRITIC

    def act(self, obs: Obs, info: ActInfo) -> dict[str, Tensor]:
        """Sample: ``actions`` (B, *shape), ``log_probs`` (B,) and ``values`` (B,), float32."""
        return self.draw(self.answer(obs, info), info)

    def answer(self, obs: Obs, info: ActInfo) -> dict[str, Tensor]:
        """What the weights say of each row: all that ``draw`` needs, and no chance in it."""
        out, values = self(obs)
        return {OUT: out, "values": values.float(), **self.head.given(len(out))}

    def draw(self, answer: dict[str, Tensor], info: ActInfo) -> dict[str, Tensor]:
        """What ``act`` returns, of an ``answer``: by no weights, so any process may do it."""
        actions, logs = self.head.sample(
            answer[OUT], self.generator, greedy=info.greedy, given=answer
        )
        return {"actions": actions, "log_probs": logs, "values": answer["values"]}

    def evaluate(self, obs: Obs, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log probabilities, entropy and values of a batch, each (B,) float32, with gradients."""
        out, values = self(obs)
        logs, entropy = self.head.evaluate(out, actions)
        return logs, entropy, values.float()

    def value(self, obs: Obs) -> Tensor:
        """Values (B,) alone."""
        values: Tensor = self(obs)[1]
        return values.float()

    def forward(self, obs: Obs) -> tuple[Tensor, Tensor]:
        """The policy's last layer (B, width), masked, and the values (B,)."""
        heads = (self.policy_weight, self.policy_bias, self.value_weight, self.value_bias)
        out: Tensor
        values: Tensor
        if isinstance(self.body, TwinMlp):
            x = flatten_all(self.spec.features, obs)
            out, values = self.body(x if self.normalizer is None else self.normalizer(x), heads)
        else:
            features = self.body(obs)
            valued = features if self.critic is None else self.critic(obs)
            out, values = apply_heads(features, valued, heads)
        return masked(out, obs), values
