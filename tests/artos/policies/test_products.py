"""Products by oneDNN where it is the faster library, against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from artos.policies import products
from artos.policies.products import Linear, affine, product


@pytest.fixture(params=[False, True], ids=["as torch chooses", "by oneDNN"])
def chosen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Both ways on any CPU that has both."""
    if request.param and not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    monkeypatch.setattr(products, "_ONEDNN_IS_FASTER", request.param)
    return bool(request.param)


def exact(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.double() @ b.double()).float()


@pytest.mark.parametrize(
    ("n", "k", "m"), [(1, 1, 1), (7, 3, 5), (300, 130, 70), (70, 300, 130), (1200, 11, 130)]
)
def test_a_product_whichever_side_is_narrow(chosen: bool, n: int, k: int, m: int) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(n, k), torch.randn(k, m)
    for left, right in ((a, b), (a.t().contiguous().t(), b), (a, b.t().contiguous().t())):
        torch.testing.assert_close(product(left, right), exact(a, b), rtol=1e-4, atol=1e-4)
    bias, weight = torch.randn(m), b.t()
    wanted = exact(a, b) + bias
    torch.testing.assert_close(affine(a, weight, bias), wanted, rtol=1e-4, atol=1e-4)


def test_float32_is_not_rounded_to_less(chosen: bool) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(256, 256), torch.randn(256, 256)
    assert (product(a, b) - exact(a, b)).abs().max() < 2e-4


@pytest.mark.parametrize("shape", [(300,), (2, 150), (4,)])
def test_a_layer_and_its_gradients_are_those_of_torch(chosen: bool, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    layer, x = Linear(90, 110), torch.randn(*shape, 90, requires_grad=True)
    weights = torch.randn(*shape, 110)
    wanted = functional.linear(x, layer.weight, layer.bias)
    leaves = [x, *layer.parameters()]
    theirs = torch.autograd.grad((wanted * weights).sum(), leaves)
    found = layer(x)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    ours = torch.autograd.grad((found * weights).sum(), leaves)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), wanted, rtol=1e-4, atol=1e-4)


def test_the_same_rows_give_the_same_bits(chosen: bool) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(256, 256), torch.randn(256, 256)
    assert torch.equal(product(a, b), product(a.clone(), b.clone()))


def test_gradients_of_a_layer_are_differentiated_again(chosen: bool) -> None:
    torch.manual_seed(0)
    layer, x = Linear(90, 110), torch.randn(300, 90, requires_grad=True)

    def curvature(out: torch.Tensor) -> torch.Tensor:
        (first,) = torch.autograd.grad(out.square().sum(), layer.weight, create_graph=True)
        return torch.autograd.grad(first.square().sum(), layer.weight)[0]

    wanted = curvature(functional.linear(x, layer.weight, layer.bias))
    torch.testing.assert_close(curvature(layer(x)), wanted, rtol=1e-3, atol=1e-1)
