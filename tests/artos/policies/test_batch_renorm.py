"""Batch renormalisation, by numbers that are computed by hand."""

from __future__ import annotations

import pytest
import torch

from artos.policies.batch_renorm import BatchRenorm

EPS = 1e-3


def layer(after: int, mean: float = 0.0, var: float = 1.0) -> BatchRenorm:
    """Of one network and one column."""
    made = BatchRenorm(1, 1, after)
    made.mean.fill_(mean)
    made.var.fill_(var - EPS)
    return made


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values).reshape(1, -1, 1)


def test_a_new_one_normalises_by_the_batch_alone() -> None:
    made = layer(after=1)
    found = made(column(3.0, 5.0), True)  # mean 4, variance 1
    torch.testing.assert_close(found, column(-1.0, 1.0) / (1 + EPS) ** 0.5)
    assert made.mean.item() == pytest.approx(0.04)
    assert made.var.item() == pytest.approx(0.99 * (1 - EPS) + 0.01)
    assert made.batches.item() == 1


def test_then_it_is_corrected_to_what_running_statistics_give() -> None:
    made = layer(after=0, mean=2.0, var=4.0)
    found = made(column(3.0, 5.0), True)  # (x - 2) / 2, as both corrections are within bounds
    torch.testing.assert_close(found, column(0.5, 1.5))
    torch.testing.assert_close(layer(0, 2.0, 4.0)(column(3.0, 5.0), False), column(0.5, 1.5))


@pytest.mark.parametrize(
    ("mean", "var", "expected"),
    [
        (4.0, 100.0, (-1 / 3, 1 / 3)),  # the ratio would be 1/10
        (4.0, 0.01, (-3.0, 3.0)),  # it would be 10
        (-16.0, 1.0, (4.0, 6.0)),  # the shift would be 20
        (24.0, 1.0, (-6.0, -4.0)),  # it would be -20
    ],
)
def test_corrections_are_bounded(mean: float, var: float, expected: tuple[float, float]) -> None:
    found = layer(0, mean, var)(column(3.0, 5.0), True)
    torch.testing.assert_close(found, column(*expected), rtol=2e-3, atol=2e-3)


def test_corrections_have_no_gradients() -> None:
    """So a batch that is moved or scaled as a whole gives the same, as with normalisation alone."""
    made, x = layer(0, 2.0, 4.0), column(3.0, 4.0, 8.0).requires_grad_()
    made(x, True)[0, 2].backward()
    assert x.grad is not None
    assert x.grad.sum().item() == pytest.approx(0, abs=1e-6)


def test_what_is_not_learned_from_moves_nothing() -> None:
    made = layer(after=0)
    made(column(30.0, 50.0), False)
    assert (made.mean.item(), made.batches.item()) == (0, 0)
    assert not [name for name, _ in made.named_parameters() if name in ("mean", "var", "batches")]
