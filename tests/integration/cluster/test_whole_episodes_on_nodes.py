"""Whole episodes where actors are on other nodes, and die in the midst of them; real processes."""

from __future__ import annotations

import itertools

import pytest
from books import book_of
from clusters import Cluster
from whole import LONGER, N

pytestmark = pytest.mark.processes


def lengths() -> itertools.chain[int]:
    """Those of an environment's episodes, one after the other."""
    return itertools.chain((5,), (LONGER[at % len(LONGER)] for at in itertools.count(1)))


@pytest.mark.long
def test_each_whole_episode_is_learned_from_once(cluster: Cluster) -> None:
    """An actor is killed, and then a node: what was begun there is given up, and counted."""
    cluster.begin("whole.py:workload")
    for node in ("w1", "w2"):
        cluster.open(node)
    with cluster.slowly():
        cluster.place({0: "w1", 1: "w2"})
        cluster.until_update(3)
        actor = cluster.member(cluster.executors["w2"], "actor-1.log")
        assert actor is not None
        actor.kill()
        cluster.until(lambda: any("dropped" in line for line in cluster.journal()))
        cluster.kill_node("w1")
    cluster.place({0: "w2", 1: "w2"}, "w1", why="it was silent for 15 s")
    summary = cluster.finish()
    assert summary["outcome"] == "done", cluster.said()
    journal, book = cluster.journal(), book_of(cluster.run_folder)
    dropped = [claim for line in journal for claim in line.get("dropped", ())]
    lost = sum(stop - start for _, start, stop, _ in dropped)
    assert summary["rows_lost"] == lost + sum(line.get("lost", 0) * 2 for line in journal)
    assert {(claim[0], claim[3]) for claim in dropped} >= {(1, 0), (1, 1)}
    assert len(book) == N * summary["updates"]
    lives = dict[tuple[int, int], list[int]]()
    for actor, env in itertools.product((0, 1), (0, 1)):
        rows = book[(book[:, 0] == actor) & (book[:, 1] == env)]
        starts, ends = rows[:, 2], rows[:, 2] + rows[:, 5]
        assert (starts[1:] >= ends[:-1]).all(), "in order, no row twice"
        lives[actor, env] = list(dict.fromkeys(rows[:, 3].tolist()))
        for identity in lives[actor, env]:
            shown = rows[rows[:, 3] == identity]
            wanted = [*itertools.islice(lengths(), len(shown))]
            assert shown[:, 5].tolist() == wanted, "each whole one of them"
            assert shown[:, 4].tolist() == [sum(wanted[:at]) for at in range(len(wanted))]
    assert all(len(found) == 2 for found in lives.values()), "they went on as others"
    assert cluster.survivors() == []
