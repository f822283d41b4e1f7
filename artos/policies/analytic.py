"""A small actor-critic differentiated without autograd, which takes as long as its products do."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from artos.policies.actor_critic import ActorCritic
from artos.policies.distributions import Categorical, DiagGaussian
from artos.policies.encoders import flatten_all
from artos.policies.masks import masked
from artos.policies.twin_mlp import TwinMlp, gradients, passed


class Analytic:
    """``evaluate`` of an ``ActorCritic`` of two MLPs on a CPU, and its gradients."""

    def __init__(
        self, module: ActorCritic, body: TwinMlp, head: Categorical | DiagGaussian
    ) -> None:
        self._module, self._head, self._layers = module, head, list(body.parameters())
        last = module.policy_weight, module.policy_bias, module.value_weight, module.value_bias
        self._last, self._parameters = last, [*last, *self._layers, *head.parameters()]

    @classmethod
    def of(cls, module: nn.Module) -> Analytic | None:
        """Of a module that it knows: a subclass may evaluate in another way."""
        if type(module) is not ActorCritic or module.policy_weight.device.type != "cpu":
            return None
        body, head = module.body, module.head
        if isinstance(body, TwinMlp) and isinstance(head, Categorical | DiagGaussian):
            return cls(module, body, head)
        return None

    @torch.no_grad()
    def evaluate(self, obs: Mapping[str, Tensor], actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities, entropy and values, as the module's own ``evaluate`` returns them."""
        module = self._module
        x = flatten_all(module.spec.features, obs)
        x = x if module.normalizer is None else module.normalizer(x)
        self._seen, out, values = passed(x, self._last, self._layers)
        rated = self._head.rated(masked(out, obs), actions)
        self._by = rated.gradients
        return rated.log_probs, rated.entropy, values

    @torch.no_grad()
    def backward(self, log_probs: Tensor, values: Tensor, entropy: Tensor) -> None:
        """Write the gradients of all parameters into their ``grad``.

        Given those of what ``evaluate`` returned last, (B,) each.
        """
        out, *own = self._by(log_probs, entropy)
        heads = self._last[0], self._last[2]
        _, *found = gradients(self._seen, self._layers[::2], heads, out, values)
        for parameter, gradient in zip(self._parameters, (*found, *own), strict=True):
            if parameter.requires_grad:  # else it is frozen, and its gradient 0
                parameter.grad.copy_(gradient)  # type: ignore[arg-type, union-attr]  # both there
