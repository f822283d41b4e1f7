"""Critics and the policy that climbs them, differentiated without autograd: SAC without pictures.

An update of 256 rows and two layers of 256 takes two thirds of the time.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from artos.policies.critics import Critics
from artos.policies.encoders import Encoder
from artos.policies.relu_mlp import Layers, Passed, ReluMlp, grads
from artos.policies.squashed import SquashedGaussian, squashed, squashed_gradients

Obs = Mapping[str, Tensor]


class AnalyticCritics:
    """``Critics`` of continuous actions with one output each, and their gradients."""

    def __init__(self, module: Critics) -> None:
        weights, biases = module.layers.weights, module.layers.biases
        layers = [p for pair in zip(weights, biases, strict=True) for p in pair]
        self._module, self._layers = module, layers
        self._each = [[each.detach() for each in one] for one in zip(*layers, strict=True)]

    @torch.no_grad()
    def evaluate(self, obs: Obs, actions: Tensor) -> Tensor:
        """Values (count, B), as the module returns them."""
        x = self._module.encoder(obs)
        self._passed = [Passed(each, x, actions) for each in self._each]
        return torch.stack([passed.out.squeeze(1) for passed in self._passed])

    @torch.no_grad()
    def backward(self, gradient: Tensor) -> None:
        """Write the gradients of all parameters into their ``grad``.

        Given those of what ``evaluate`` returned last, (count, B).
        """
        places = grads(self._layers)
        for number, passed in enumerate(self._passed):
            into = [None if place is None else place[number] for place in places]
            passed.write(gradient[number].unsqueeze(1), into)

    @torch.no_grad()
    def of_actions(self, gradient: Tensor) -> Tensor:
        """Those of the actions, (B, size), given those of the values, (count, B)."""
        first, *others = (
            passed.of_more(of.unsqueeze(1))
            for passed, of in zip(self._passed, gradient.unbind(), strict=True)
        )
        return sum(others, first)


class AnalyticGaussian:
    """A ``SquashedGaussian``, and its gradients."""

    def __init__(self, module: SquashedGaussian, layers: Layers) -> None:
        self._module, self._layers = module, layers

    @torch.no_grad()
    def sample(self, obs: Obs, noise: Tensor) -> tuple[Tensor, Tensor]:
        """What the module's own ``sample`` returns."""
        self._passed = Passed(self._layers, self._module.encoder(obs))
        mean, log_std = self._passed.out.chunk(2, -1)
        actions, logs, *kept = squashed(mean, log_std, noise)
        self._kept = actions, *kept
        freed = self._module.bounds.freed
        return freed(actions), freed(logs).sum(-1)

    @torch.no_grad()
    def backward(self, actions: Tensor, logs: Tensor) -> None:
        """Write the gradients of all parameters into their ``grad``.

        Given those of what ``sample`` returned last, (B, size) and (B,).
        """
        freed = self._module.bounds.freed
        of_logs = freed(logs.unsqueeze(1).expand_as(actions))
        out = squashed_gradients(self._kept, freed(actions), of_logs)
        self._passed.write(torch.cat(out, 1), grads(self._layers))


class AnalyticSoft:
    """A policy, its critics and their targets on a CPU."""

    def __init__(
        self, policy: AnalyticGaussian, critics: AnalyticCritics, targets: AnalyticCritics
    ) -> None:
        self.policy, self.critics, self.targets = policy, critics, targets

    @classmethod
    def of(cls, policy: nn.Module, critics: nn.Module, targets: nn.Module) -> AnalyticSoft | None:
        """Of modules that it knows: a subclass may compute in another way."""
        if type(policy) is not SquashedGaussian or type(critics) is not Critics:
            return None
        if type(targets) is not Critics:
            return None
        net, encoders = policy.layers, (policy.encoder, critics.encoder)
        if type(net) is not ReluMlp or not critics.single:
            return None
        flat = all(type(each) is Encoder and not each.pictures for each in encoders)
        if not flat or net.layers[0].device.type != "cpu":
            return None
        return cls(
            AnalyticGaussian(policy, net.layers), AnalyticCritics(critics), AnalyticCritics(targets)
        )
