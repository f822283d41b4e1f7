"""Actors that leave a node go on elsewhere in mid-episode, by their image; real processes."""

from __future__ import annotations

import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from books import book_of
from clusters import Cluster
from elastic import needs_criu
from journey import follower

pytestmark = [needs_criu, pytest.mark.processes, pytest.mark.timeout(400)]

JOURNEY = "journey.py:workload"
ROWS = 2400


def begin(cluster: Cluster, rows: int = ROWS) -> None:
    """Actor 0 on w1, actor 1 on w2."""
    cluster.begin(JOURNEY, total_steps=rows)
    for node in ("w1", "w2"):
        cluster.open(node)
    cluster.place({0: "w1", 1: "w2"})


def paths(run: Path, actor: int) -> list[list[int]]:
    """What an actor's environments showed, each of them one after the other."""
    book = book_of(run)
    rows = book[book[:, 0] == actor]
    assert rows[:, 1].tolist() == list(range(len(rows))), "each row once, in order"
    found: dict[int, list[int]] = {}
    for _, _, identity, place in rows.tolist():
        found.setdefault(identity, []).append(place)
    for identity, path in found.items():
        assert path[0] == identity
        assert all(follower(a) == b for a, b in pairwise(path)), "the episode was broken"
    return list(found.values())


def assert_over(cluster: Cluster, summary: dict[str, Any], rows: int = ROWS) -> None:
    assert (summary["outcome"], summary["steps"]) == ("done", rows)
    assert summary["rows_lost"] == 0
    assert set(cluster.statuses().values()) == {0}, cluster.said()
    assert not (cluster.run_folder / "parcels").exists()
    assert cluster.survivors() == []


def moved(cluster: Cluster) -> list[tuple[str, str, str]]:
    """Who moved from where to where, as the journal says."""
    lines = [line for line in cluster.journal() if line.get("start") == "moved"]
    return [(line["ready"], line["from"], line["to"]) for line in lines]


def is_left(cluster: Cluster, node: str) -> list[str]:
    """Images, parcels and blocks of actors that lie on a node."""
    memory, images = cluster.memory_of(node), cluster.folder / node / "images"
    return [
        path.name
        for path in (*memory.iterdir(), *images.glob("*/*"))
        if path.name.startswith("actor") or path.suffix == ".parcel"
    ]


def test_an_actor_goes_on_in_mid_episode_on_another_node(cluster: Cluster) -> None:
    with cluster.slowly():
        begin(cluster)
        cluster.until_update(3)
        cluster.place({0: "w1", 1: "w1"}, why="w2 is drained")
        cluster.until(lambda: moved(cluster))
        assert is_left(cluster, "w2") == []
        cluster.sites["w2"].send_signal(signal.SIGTERM)
    summary = cluster.finish()
    assert moved(cluster) == [("actor 1", "w2", "w1")]
    assert summary["starts"]["moved"]["count"] == 1
    assert summary["restarts"] == 0
    assert_over(cluster, summary)
    assert [len(path) for path in paths(cluster.run_folder, 1)] == [ROWS // 2]
