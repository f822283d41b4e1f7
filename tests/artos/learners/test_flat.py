"""The flat optimiser: gradients added up part by part step like that of the sum."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from artos.learners.flat import FlatAdam


def two() -> tuple[nn.Linear, FlatAdam]:
    torch.manual_seed(3)
    module = nn.Linear(4, 1)
    return module, FlatAdam(module, lr=0.1)


def losses(module: nn.Linear) -> list[Tensor]:
    rows = torch.arange(12.0).reshape(3, 4)
    return [module(row).square().sum() for row in rows]


def test_parts_step_like_their_sum() -> None:
    module, adam = two()
    adam.step(torch.stack(losses(module)).sum(), max_grad_norm=0.5)
    wanted = adam.values.clone()
    module, adam = two()
    for loss in losses(module):
        adam.backward(loss)
    adam.apply(0.5)
    np.testing.assert_allclose(adam.values, wanted, rtol=1e-6)
    assert adam.steps == 1


def test_a_step_on_one_loss_knows_nothing_of_what_was_added_before() -> None:
    module, adam = two()
    first, second, _ = losses(module)
    adam.backward(first)
    adam.step(second)
    kept = adam.values.clone()
    module, adam = two()
    adam.step(losses(module)[1])
    assert torch.equal(adam.values, kept)


@pytest.mark.parametrize("discarded", [False, True])
def test_what_was_discarded_does_not_count(discarded: bool) -> None:
    module, adam = two()
    first, second, _ = losses(module)
    adam.backward(first)
    if discarded:
        adam.discard()
    adam.backward(second)
    found = adam.weights.grad.clone()  # type: ignore[union-attr]
    module, adam = two()
    again = losses(module)
    adam.backward(again[1] if discarded else again[0] + again[1])
    torch.testing.assert_close(found, adam.weights.grad)


def test_no_step_without_a_gradient() -> None:
    module, adam = two()
    with pytest.raises(RuntimeError, match="call backward"):
        adam.apply()
    adam.step(losses(module)[0])
    with pytest.raises(RuntimeError, match="call backward"):
        adam.apply()
