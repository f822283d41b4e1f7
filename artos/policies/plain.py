"""The built-in policy made of ordinary layers: for export, and for readers who know PyTorch."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from artos.policies.acting import ACTOR_CRITIC, ActInfo
from artos.policies.actor_critic import ActorCritic, Obs
from artos.policies.encoders import Conv, Encoder, NatureCnn, flatten_all
from artos.policies.flat import named_tensors
from artos.policies.masks import masked
from artos.policies.twin_mlp import TwinMlp


class PlainActorCritic(nn.Module):
    """Gives what the ``ActorCritic`` it is made of gives, within float32 rounding.

    - Without pictures, ``policy`` and ``value`` are an ``nn.Sequential`` each, of ``Linear`` and
      ``Tanh``, over all parts flattened: ``policy.0.weight`` (out, in), ``value.0.weight``, ...
    - With pictures, ``cnn.I`` is the ``PlainCnn`` of picture I. ``policy`` and ``value`` are one
      ``Linear`` each over its features and the parts that are no pictures. Where the value has
      features of its own (TRPO) these are of ``critic_cnn.I`` and ``critic_normalizer``.

    ``normalizer`` scales the flattened parts, if the policy was trained with scaled observations.
    ``policy`` ends in logits or means; ``head.log_std`` is the deviation of continuous actions.
    """

    outputs = ACTOR_CRITIC

    def __init__(self, trained: ActorCritic) -> None:
        super().__init__()
        self.head, self.normalizer = trained.head, trained.normalizer
        self.critic_cnn: nn.ModuleList | None = None
        self.critic_normalizer: nn.Module | None = None
        policy = linear(trained.policy_weight.t(), trained.policy_bias)
        value = linear(trained.value_weight[None], trained.value_bias)
        if isinstance(trained.body, TwinMlp):
            self.images, self.flat = [], [*trained.spec.features]
            self.cnn = nn.ModuleList()
            self.policy = nn.Sequential(*_tanh_layers(trained.body, 0), policy)
            self.value = nn.Sequential(*_tanh_layers(trained.body, 1), value)
        else:
            self.images, self.flat = trained.body.pictures, trained.body.flat
            self.cnn, self.normalizer = plain_cnns(trained.body), trained.body.normalizer
            if trained.critic is not None:
                self.critic_cnn = plain_cnns(trained.critic)
                self.critic_normalizer = trained.critic.normalizer
            self.policy, self.value = nn.Sequential(policy), nn.Sequential(value)
        assert _numbers(self) == _numbers(trained), "the policy has parameters unknown here"

    def act(self, obs: Obs, info: ActInfo) -> dict[str, Tensor]:
        """Sample: ``actions`` (B, *shape), ``log_probs`` (B,) and ``values`` (B,), float32."""
        out, values = self(obs)
        actions, logs = self.head.sample(out, greedy=info.greedy)
        return {"actions": actions, "log_probs": logs, "values": values}

    def forward(self, obs: Obs) -> tuple[Tensor, Tensor]:
        """The policy's last layer (B, width), masked, and the values (B,)."""
        features = valued = self._features(self.cnn, self.normalizer, obs)
        if self.critic_cnn is not None:
            valued = self._features(self.critic_cnn, self.critic_normalizer, obs)
        return masked(self.policy(features), obs), self.value(valued).squeeze(1)

    def _features(self, cnn: nn.ModuleList, normalizer: nn.Module | None, obs: Obs) -> Tensor:
        seen = [net(obs[part.name]) for net, part in zip(cnn, self.images, strict=True)]
        if self.flat:
            x = flatten_all(self.flat, obs)
            seen.append(x if normalizer is None else normalizer(x))
        return seen[0] if len(seen) == 1 else torch.cat(seen, 1)


def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """A layer with these weights (out, in) and this bias (out,)."""
    outside, inside = weight.shape
    layer = nn.Linear(inside, outside)
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer


def _tanh_layers(twin: TwinMlp, side: int) -> list[nn.Module]:
    """The layers of one of the two networks: 0 is the policy's, 1 the value's."""
    layers: list[nn.Module] = []
    for i, _ in enumerate(pairwise(twin.sides)):
        weight, bias = twin.get_parameter(f"weight{i}")[side], twin.get_parameter(f"bias{i}")[side]
        layers += [linear(weight.t(), bias[0]), nn.Tanh()]
    return layers


class PlainCnn(nn.Sequential):
    """A ``NatureCnn`` of ``Conv2d``, ``ReLU``, ``Flatten`` and ``Linear``.

    These take (B, C, H, W), with bytes scaled to 0 … 1 before.
    """

    def __init__(self, net: NatureCnn) -> None:
        convs = [layer for conv in (net.first, net.second, net.third) for layer in _layers(conv)]
        # The features are flattened with the colours first here, not last.
        columns = net.last.weight.view(len(net.last.weight), *net.sides, -1)
        last = linear(columns.permute(0, 3, 1, 2).flatten(1), net.last.bias)
        super().__init__(*convs, nn.Flatten(), last, nn.ReLU())
        self.seen, self.divisor = net.seen, net.divisor

    def forward(self, image: Tensor) -> Tensor:
        """Features (B, 512) of pictures (B, *value_shape)."""
        image = self.seen.arranged(image).float() / self.divisor
        found: Tensor = super().forward(image)  # type: ignore[no-untyped-call]
        return found


def plain_cnns(encoder: Encoder) -> nn.ModuleList:
    """The networks of an encoder, made of ordinary layers."""
    return nn.ModuleList(PlainCnn(net) for net in encoder.nets if isinstance(net, NatureCnn))


def plain(module: nn.Module) -> nn.Module:
    """``module`` with ordinary layers instead of ours; it may be changed in place."""
    if type(module) is ActorCritic:
        return PlainActorCritic(module)
    for encoder in module.modules():
        if isinstance(encoder, Encoder):
            encoder.nets = plain_cnns(encoder)
    return module


def _layers(conv: Conv) -> tuple[nn.Module, nn.Module]:
    outside, side, _, inside = conv.weight.shape
    layer = nn.Conv2d(inside, outside, side, conv.stride)
    with torch.no_grad():
        layer.weight.copy_(conv.weight.permute(0, 3, 1, 2))
        assert layer.bias is not None
        layer.bias.copy_(conv.bias)
    return layer, nn.ReLU()


def _numbers(module: nn.Module) -> int:
    return sum(tensor.numel() for tensor in named_tensors(module).values())
