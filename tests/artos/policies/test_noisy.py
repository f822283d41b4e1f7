"""Noisy layers against their equations."""

from __future__ import annotations

import torch

from artos.policies.noisy import NoisyLinear


def test_a_noisy_layer_is_a_layer_with_other_weights() -> None:
    layer, x = NoisyLinear(3, 2, 0.5), torch.randn(4, 3)
    torch.testing.assert_close(layer.weight_deviation, torch.full((2, 3), 0.5 / 3**0.5))
    torch.manual_seed(1)
    found = layer(x, noisy=True)
    torch.manual_seed(1)
    before, after = (e.sign() * e.abs().sqrt() for e in (torch.randn(3), torch.randn(2)))
    weight = layer.weight + layer.weight_deviation * torch.outer(after, before)
    bias = layer.bias + layer.bias_deviation * after
    torch.testing.assert_close(found, x @ weight.t() + bias)
    torch.testing.assert_close(layer(x), x @ layer.weight.t() + layer.bias)
