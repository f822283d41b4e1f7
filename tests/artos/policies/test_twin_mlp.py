from __future__ import annotations

import pytest
import torch
from torch import Tensor

from artos.policies.twin_mlp import TwinMlp, apply_heads


def plain(net: TwinMlp, x: Tensor, heads: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """The two networks one after the other, by torch's own autograd."""
    policy = value = x
    for i in range(len(net.sides) - 1):
        weight, bias = getattr(net, f"weight{i}"), getattr(net, f"bias{i}")
        policy = torch.tanh(policy @ weight[0] + bias[0])
        value = torch.tanh(value @ weight[1] + bias[1])
    return apply_heads(policy, value, heads)


@pytest.mark.parametrize("hidden", [(8, 6), (5,), (4, 4, 4), ()])
@pytest.mark.parametrize("wants_input", [False, True])
def test_values_and_gradients_are_those_of_two_plain_networks(
    hidden: tuple[int, ...], wants_input: bool
) -> None:
    torch.manual_seed(0)
    net = TwinMlp(3, hidden)
    shapes = [(net.width, 4), (4,), (net.width,), (1,)]
    heads = tuple(torch.randn(shape, requires_grad=True) for shape in shapes)
    x = torch.randn(7, 3, requires_grad=wants_input)
    leaves = [*net.parameters(), *heads, *([x] if wants_input else [])]
    weights = torch.randn(7, 4), torch.randn(7)
    found = []
    for out, values in (net(x, heads), plain(net, x, heads)):
        loss = (out * weights[0]).sum() + (values * weights[1]).square().sum()
        found.append([out, values, *torch.autograd.grad(loss, leaves)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def test_weights_may_change_between_two_passes_but_not_within_one() -> None:
    net = TwinMlp(3, (4,))
    heads = torch.randn(4, 2), torch.zeros(2), torch.randn(4), torch.zeros(1)
    out, _ = net(torch.randn(5, 3), heads)
    with torch.no_grad():
        net.weight0.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
