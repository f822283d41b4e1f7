"""The projection of a distribution of returns, by numbers worked out by hand."""

from __future__ import annotations

import pytest
import torch

from artos.losses.categorical import projected

SUPPORT = torch.tensor([-1.0, 0.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("probabilities", "reward", "discount", "wanted"),
    [
        ([0.1, 0.2, 0.3, 0.4], 0.0, 1.0, [0.1, 0.2, 0.3, 0.4]),
        ([0.1, 0.2, 0.3, 0.4], 1.0, 1.0, [0.0, 0.1, 0.2, 0.7]),  # 3 counts as 2
        ([0.1, 0.2, 0.3, 0.4], -9.0, 1.0, [1.0, 0.0, 0.0, 0.0]),
        ([0.1, 0.2, 0.3, 0.4], 0.25, 0.0, [0.0, 0.75, 0.25, 0.0]),  # terminated
        ([0.1, 0.2, 0.3, 0.4], 2.0, 0.0, [0.0, 0.0, 0.0, 1.0]),
        # -0.5, 0, 0.5 and 1: halves of 0.1 and of 0.3 go to either side.
        ([0.1, 0.2, 0.3, 0.4], 0.0, 0.5, [0.05, 0.4, 0.55, 0.0]),
        # 1.6 and 0.4: 0.4 and 0.6 of a half each.
        ([0.5, 0.0, 0.0, 0.5], 1.2, -0.4, [0.0, 0.3, 0.4, 0.3]),
    ],
)
def test_what_is_moved_is_shared_by_the_nearest_atoms(
    probabilities: list[float], reward: float, discount: float, wanted: list[float]
) -> None:
    found = projected(
        SUPPORT, torch.tensor([probabilities]), torch.tensor([reward]), torch.tensor([discount])
    )
    torch.testing.assert_close(found, torch.tensor([wanted]))


def test_it_is_equation_7_row_by_row() -> None:
    random = torch.Generator().manual_seed(1)
    support = torch.linspace(-7.3, 11.1, 51)
    before = torch.rand(64, 51, generator=random).softmax(1)
    rewards = torch.randn(64, generator=random) * 6
    discounts = torch.rand(64, generator=random)
    found = projected(support, before, rewards, discounts)
    moved = (rewards[:, None] + discounts[:, None] * support).clamp(-7.3, 11.1)
    gap = (11.1 + 7.3) / 50
    shares = (1 - (moved[:, None] - support[:, None]).abs() / gap).clamp(0, 1)  # (n, i, j)
    torch.testing.assert_close(found, (shares * before[:, None]).sum(2), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.sum(1), torch.ones(64))


def test_the_mean_moves_with_the_returns_where_the_support_has_room() -> None:
    support, before = torch.linspace(-50, 50, 21), torch.zeros(1, 21)
    before[0, 9:12] = torch.tensor([0.2, 0.5, 0.3])
    found = projected(support, before, torch.tensor([3.3]), torch.tensor([0.9]))
    assert float((found * support).sum()) == pytest.approx(3.3 + 0.9 * 0.5, rel=1e-4)
