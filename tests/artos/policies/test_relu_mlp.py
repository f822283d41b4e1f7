"""The networks that are one step of autograd, against the same networks made of torch's layers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from artos.learners.network import Network
from artos.learners.optimisers import Adam
from artos.policies.relu_mlp import ReluMlp, ReluMlps

SIZES = [(3, (), 2), (3, (5,), 1), (2, (8, 6), 4), (9, (4, 20), 1), (30, (450, 400), 3)]
"""The last one is so large that its products are computed one by one, by oneDNN on some CPUs."""


def plain(layers: nn.Module, x: Tensor, number: int) -> Tensor:
    pairs = list(zip(layers.weights, layers.biases, strict=True))
    for weight, bias in pairs[:-1]:
        x = (x @ weight[number].T + bias[number]).relu()
    return x @ pairs[-1][0][number].T + pairs[-1][1][number]


@pytest.mark.parametrize(("width", "hidden", "out"), SIZES)
def test_one_network_and_its_gradients(width: int, hidden: tuple[int, ...], out: int) -> None:
    torch.manual_seed(0)
    net, x = ReluMlp(width, hidden, out), torch.randn(7, width, requires_grad=True)
    wanted = nn.Sequential(*net)(x)
    weights = torch.randn_like(wanted)
    theirs = torch.autograd.grad((wanted * weights).sum(), [x, *net.parameters()])
    found = net(x)
    ours = torch.autograd.grad((found * weights).sum(), [x, *net.parameters()])
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(net(x), wanted)


@pytest.mark.parametrize(("width", "hidden", "out"), SIZES)
@pytest.mark.parametrize("apart", [False, True])
def test_networks_side_by_side_and_their_gradients(
    width: int, hidden: tuple[int, ...], out: int, apart: bool
) -> None:
    torch.manual_seed(0)
    nets = ReluMlps(2, width, hidden, out)
    inputs = [torch.randn(7, width - 1, requires_grad=True), torch.randn(7, 1, requires_grad=True)]
    inputs = inputs if apart else [torch.cat(inputs, 1).detach().requires_grad_()]
    x = torch.cat(inputs, 1)
    wanted = torch.stack([plain(nets, x, number) for number in range(2)])
    weights, leaves = torch.randn_like(wanted), [*inputs, *nets.parameters()]
    theirs = torch.autograd.grad((wanted * weights).sum(), leaves)
    found = nets(*inputs)
    ours = torch.autograd.grad((found * weights).sum(), leaves)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_fixed_network_passes_gradients_on_and_takes_none() -> None:
    network = Network(ReluMlps(2, 3, (4,), 1), Adam(1e-3))
    x = torch.randn(5, 3, requires_grad=True)
    with network.fixed():
        found = network(x)
    found.sum().backward()
    assert x.grad is not None
    assert not network.weights.grad.any()
    network.step(network(x).sum())
    assert network.weights.grad.any()


def test_rounded_as_autocast_says() -> None:
    net, x = ReluMlp(4, (8,), 2), torch.randn(6, 4)
    with torch.autocast("cpu", torch.bfloat16):
        found = net(x)
    assert found.dtype == torch.float32, "the last layer is exact"
    assert not torch.equal(found, net(x))
    torch.testing.assert_close(found, net(x), rtol=0.05, atol=0.05)
    rounded = torch.autograd.grad(found.sum(), [*net.parameters()])
    exact = torch.autograd.grad(net(x).sum(), [*net.parameters()])
    torch.testing.assert_close(rounded, exact, rtol=0.05, atol=0.05)
