"""What a replica takes of the rows that all of them have."""

from __future__ import annotations

import numpy as np
import pytest

from artos.errors import IndivisibleRows
from artos.learners.replicas import Replicas


class LastOfThree(Replicas):
    rank, count = 2, 3


def test_its_part_counts_by_its_share() -> None:
    replicas = LastOfThree()
    assert replicas.part(np.arange(7)).tolist() == [2, 5]
    assert replicas.share == 2 / 7


def test_a_mean_of_nothing_is_not_learned_from() -> None:
    with pytest.raises(IndivisibleRows, match="2 rows cannot be divided by 3 replicas: lower"):
        LastOfThree().part(np.arange(2))
