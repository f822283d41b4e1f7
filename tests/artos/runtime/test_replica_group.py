"""What replicas do together, with two of them in threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import torch

from artos.buffer.gathering import Gathering
from artos.buffer.samplers.drawn_batch import DrawnBatch
from artos.buffer.samplers.transitions import INDEX
from artos.errors import NothingToSample
from artos.learners.network import Network
from artos.learners.optimisers import Adam
from artos.learners.replicas import ALONE
from artos.runtime.replica_group import ReplicaGroup
from artos.specs.members import Member

T = TypeVar("T")


class Sampler:
    """Notes the priorities that it is given; ``numbers`` are those of its data sets."""

    def __init__(self) -> None:
        self.burn_in, self.numbers = 2, {"demos": 4}
        self.given: list[tuple[list[int], list[float]]] = []

    def update(self, index: Any, priorities: Any) -> None:
        self.given.append((index[:, 1].tolist(), priorities.tolist()))


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[list[ReplicaGroup]]:
    Gathering.create(tmp_path / "gathering", 2)

    def group(rank: int) -> ReplicaGroup:
        gathering = Gathering.attach(tmp_path / "gathering", 2)
        gathering.come(rank, 1)
        return ReplicaGroup(tmp_path, gathering, Member("learner", rank), 1, 60.0, 60.0)

    made = both(group, [0, 1])
    yield made
    made.clear()


def both(do: Callable[[Any], T], each: list[Any]) -> list[T]:
    """What both return, at the same time."""
    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(do, each))


def batch(rows: int, sampler: Any) -> DrawnBatch:
    index = np.stack([np.full(rows, 4), np.arange(rows), np.zeros(rows, int)], 1)
    arrays = {
        INDEX: index,
        "observations": np.arange(rows * 6, dtype=np.uint8).reshape(rows, 2, 3),
        "actions": np.arange(rows),
        "valid": np.arange(rows) % 2 == 0,
        "rewards": np.linspace(0, 1, rows, dtype=np.float32),
    }
    return DrawnBatch(arrays, sampler)


def test_the_first_one_draws_for_all(groups: list[ReplicaGroup]) -> None:
    whole = batch(5, Sampler())
    first, second = both(lambda group: group.drawn(lambda: whole), groups)
    assert first is whole
    assert [*second] == [*whole]
    for name, array in whole.items():
        assert second[name].dtype == array.dtype
        assert second[name].flags.aligned
        np.testing.assert_array_equal(second[name], array)
    assert (second.burn_in, second.takes_priorities) == (2, True)
    assert second.of("demos").all()


def test_parts_make_the_whole_and_its_priorities(groups: list[ReplicaGroup]) -> None:
    sampler = Sampler()
    whole = batch(5, sampler)

    def learn(group: ReplicaGroup) -> tuple[list[int], float]:
        part = group.part(group.drawn(lambda: whole))
        part.prioritise(part["actions"] + 0.5)
        return part["actions"].tolist(), group.share

    assert both(learn, groups) == [([0, 2, 4], 0.6), ([1, 3], 0.4)]
    assert sampler.given == [([0, 1, 2, 3, 4], [0.5, 1.5, 2.5, 3.5, 4.5])]


def test_where_nothing_can_be_drawn_none_has_a_batch(groups: list[ReplicaGroup]) -> None:
    def nothing() -> DrawnBatch:
        raise NothingToSample(7, 3)

    def told(group: ReplicaGroup) -> tuple[int, int]:
        with pytest.raises(NothingToSample) as error:
            group.drawn(nothing)
        return error.value.rows, error.value.stale

    assert both(told, groups) == [(7, 3), (7, 3)]


def test_gradients_of_shares_add_up_to_that_of_the_whole(groups: list[ReplicaGroup]) -> None:
    rows = torch.linspace(-1, 1, 21).reshape(7, 3)

    def stepped(group: Any) -> list[float]:
        torch.manual_seed(0)
        layer = torch.nn.Linear(3, 1)
        with torch.no_grad():
            layer.weight.fill_(0.5)
            layer.bias.fill_(0.1)
        network = Network(layer, Adam(0.1), max_grad_norm=0.01, replicas=group)
        mine = group.part(np.arange(len(rows)))
        network.step(network(rows[mine]).square().mean())
        found: list[float] = network.values.tolist()
        return found

    alone = stepped(ALONE)
    for found in both(stepped, groups):
        assert found == pytest.approx(alone, abs=1e-6)


def test_metrics_of_parts_are_those_of_the_whole(groups: list[ReplicaGroup]) -> None:
    values = torch.tensor([1.0, 2.0, 3.0, 10.0, 20.0])

    def told(group: ReplicaGroup) -> float:
        mine = group.part(np.arange(5))
        return float(group.total({"mean": values[mine].mean()})["mean"])

    assert both(told, groups) == pytest.approx([float(values.mean())] * 2)


def test_who_differs_takes_over_what_the_first_one_has(
    groups: list[ReplicaGroup], caplog: pytest.LogCaptureFixture
) -> None:
    first = [torch.arange(4.0), torch.tensor(3), np.arange(3)]
    held = [first, [torch.arange(4.0), torch.tensor(4), np.arange(3) + 1]]
    for _ in range(2):
        both(lambda rank: groups[rank].agree(held[rank]), [0, 1])
    assert caplog.text.count("the replicas of learner did not compute the same") == 2, "each once"
    for mine, theirs in zip(*held, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_whole_sequences_are_divided_as_such() -> None:
    group = object.__new__(ReplicaGroup)
    group.count = 2
    columns = np.array([5, 3, 5, 3, 9, 9])
    parts = []
    for group.rank in range(2):
        parts.append(group.columns(np.arange(6) * 10, columns).tolist())
    assert parts == [[10, 30, 40, 50], [0, 20]]
    np.testing.assert_array_equal(ALONE.columns(np.arange(6), columns), np.arange(6))
