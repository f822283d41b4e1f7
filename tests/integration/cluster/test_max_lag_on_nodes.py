"""``max_lag`` on two nodes: no row is older, what is dropped is counted, long episodes are not."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from books import Book, book_of
from clusters import Cluster
from episodes import HELD, LENGTHS, STEPS

pytestmark = [pytest.mark.processes, pytest.mark.long]

EPISODES = "episodes.py:workload"
ROWS, ACTORS = 480, 2
NODES = {0: "w1", 1: "w2"}


@contextmanager
def held_learner(cluster: Cluster) -> Iterator[None]:
    """Meanwhile the learner is at its first update."""
    mark = cluster.folder / HELD
    mark.touch()
    yield
    mark.unlink()


def run(cluster: Cluster, rounds: int, **settings: Any) -> tuple[Book, dict[str, Any]]:
    """Have actors be so many rounds ahead of the learner at first; long episodes take longer."""
    with cluster.slowly():
        with held_learner(cluster):
            cluster.begin(EPISODES, **settings)
            for node in NODES.values():
                cluster.open(node)
            cluster.place(NODES)
            cluster.until(lambda: all(len(sampled(cluster, a)) >= rounds for a in NODES))
        summary = cluster.finish()
    assert set(cluster.statuses().values()) == {0}, cluster.said()
    assert cluster.survivors() == []
    return book_of(cluster.run_folder), summary


def sampled(cluster: Cluster, actor: int) -> list[int]:
    """Places in the journal of the rounds that an actor is done with."""
    lines = cluster.journal()
    return [at for at, line in enumerate(lines) if line.get("by") == f"actor {actor}"]


def first_update(cluster: Cluster) -> int:
    """Place in the journal where the learner is done for the first time."""
    return next(at for at, line in enumerate(cluster.journal()) if line.get("by") == "learner")


def generated(cluster: Cluster) -> Counter[int]:
    """How many episodes of each length ended, as the actors reported them."""
    with (cluster.run_folder / "episodes.csv").open() as file:
        return Counter(int(float(row["length"])) for row in csv.DictReader(file))


def trained(book: Book) -> Counter[int]:
    """How many episodes of each length ended in rows that were learned from."""
    return Counter(book[book[:, 4] == 1][:, 3].tolist())


def rows_of(claims: Iterable[Any]) -> list[tuple[int, int]]:
    return [(actor, step) for actor, start, stop in claims for step in range(start, stop)]


def dropped(cluster: Cluster) -> list[tuple[int, int]]:
    """Rows (actor, step) that were given up, by the journal."""
    return [row for line in cluster.journal() for row in rows_of(line.get("dropped", ()))]


def test_producers_are_paced_and_long_episodes_are_not_left_out(cluster: Cluster) -> None:
    book, summary = run(cluster, rounds=3, max_lag=2)
    for actor in NODES:
        ahead = [at for at in sampled(cluster, actor) if at < first_update(cluster)]
        assert len(ahead) == 3, "as far ahead as max_lag lets them, and no further"
        _, step, lag, _, _ = book[book[:, 0] == actor].T
        np.testing.assert_array_equal(step, np.arange(ROWS // ACTORS))
        assert lag[: 3 * STEPS].tolist() == [r for r in range(3) for _ in range(STEPS)]
        assert lag.max() == summary["lag_by_actor"][str(actor)]["max"] == 2
    assert (summary["steps"], summary["rows_lost"], dropped(cluster)) == (ROWS, 0, [])
    assert trained(book) == generated(cluster)
    assert trained(book)[max(LENGTHS)] > ACTORS, "there were some"


def test_first_come_first_served_leaves_nobody_out(cluster: Cluster) -> None:
    """Whoever has a long episode is waited for: else its rows would be too old once they come."""
    book, summary = run(cluster, rounds=1, max_lag=1, n=1)
    assert (summary["rows_lost"], dropped(cluster)) == (0, [])
    assert book[:, 2].max() == summary["lag_max"] == 1
    for actor in NODES:
        steps = book[book[:, 0] == actor][:, 1]
        np.testing.assert_array_equal(steps, np.arange(len(steps)))
    assert len(book) == summary["steps"] >= ROWS
    assert trained(book) == generated(cluster)


def test_what_must_be_dropped_is_counted(cluster: Cluster) -> None:
    """Updates take half rounds: of the eight halves of the first version only two can be used."""
    book, summary = run(cluster, rounds=2, max_lag=1, n=1, size=STEPS // 2)
    lost, used = dropped(cluster), [(actor, step) for actor, step, *_ in book.tolist()]
    assert book[:, 2].max() <= 1
    assert len(lost) == summary["rows_stale"] >= 6 * STEPS // 2
    assert len(lost) + len(used) == summary["steps"] >= ROWS
    for actor in NODES:
        steps = sorted(step for who, step in used + lost if who == actor)
        assert steps == list(range(len(steps))), "each row went one way"
