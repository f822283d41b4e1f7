"""What a learner publishes beside the weights, where its actors are on other nodes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from books import book_of
from clusters import Cluster
from publishing import STEPS
from witness import told_by

pytestmark = [pytest.mark.processes, pytest.mark.long]

PUBLISHING, UPDATE, NODES = "publishing.py:workload", "learner.update", {0: "w1", 1: "w2"}


def begin(cluster: Cluster, steps: int, *, resume: bool = False) -> None:
    cluster.begin(PUBLISHING, resume=resume, total_steps=steps)
    for node in NODES.values():
        cluster.open(node)
    cluster.place(NODES)


def fired(cluster: Cluster, target: str) -> list[int]:
    """The versions of the firings of a target, by the journal."""
    return [line["version"] for line in cluster.journal() if line.get("trigger") == target]


def manifest_of(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (cluster.run_folder / "checkpoint" / "manifest.json").read_text()
    )
    return found


def rows_by_update(cluster: Cluster) -> list[int]:
    """How many rows the learner had after each update, which is what it published."""
    claims = [line["claims"] for line in cluster.journal() if line.get("trigger") == UPDATE]
    return np.cumsum([sum(stop - start for _, start, stop in each) for each in claims]).tolist()


def assert_bound_as_the_object_says(cluster: Cluster) -> None:
    """Actors bind weights with every second object, and those that were published with it."""
    book = book_of(cluster.run_folder)
    np.testing.assert_array_equal(book[:, 3], [told_by(int(v)) for v in book[:, 2]])
    mine = book[book[:, 0] == 0]
    held = mine[::STEPS, 2]
    assert held.tolist() == [0, *(number // 2 * 2 + 1 for number in range(len(held) - 1))]


def test_it_fires_is_read_by_policies_saved_and_restored(cluster: Cluster) -> None:
    with cluster.slowly():
        begin(cluster, 32_000)
        cluster.until(lambda: any(line.get("actors") == 2 for line in cluster.journal()))
        cluster.until_update(cluster.updates() + 3)
        cluster.stop()
    steps = cluster.finish()["steps"]
    updates = rows_by_update(cluster)
    assert fired(cluster, "learner.noticed") == [*range(len(updates))]
    assert fired(cluster, "actors.sync") == [*range(0, len(updates), 2)]
    assert_bound_as_the_object_says(cluster)
    manifest = manifest_of(cluster)
    assert manifest["objects"] == {"noise_scale": len(updates) - 1, "told": len(updates)}
    assert manifest["scaling"]["memory"]["seen"] == [None, *updates]

    begin(cluster, steps + 64, resume=True)
    assert cluster.finish()["outcome"] == "done"
    assert set(cluster.statuses().values()) == {0}, cluster.said()
    assert cluster.survivors() == []
    again = fired(cluster, "learner.noticed")[len(updates) :]
    assert again == [*range(len(updates) - 1, len(updates) - 1 + len(again))]
    assert manifest_of(cluster)["scaling"]["memory"]["seen"][-1] == steps + 64


def test_a_node_that_comes_late_gets_the_past_too(cluster: Cluster) -> None:
    """Actors fail where a past version is missing; the learner and their first node are killed."""
    with cluster.slowly():
        cluster.begin(PUBLISHING, total_steps=1_600)
        cluster.open("w1")
        cluster.place({0: "w1", 1: "w1"})
        cluster.until_update(7)
        cluster.kill_learner()
        cluster.until_update(9)
        cluster.open("w2")
        cluster.kill_node("w1")
        cluster.place({0: "w2", 1: "w2"}, "w1", why="w1 is gone")
        cluster.until_update(cluster.updates() + 4)
    summary = cluster.finish()
    assert summary["outcome"] == "done"
    assert summary["steps"] >= 1_600
    assert summary["restarts"] == 3, "the learner, and both actors, once each"
