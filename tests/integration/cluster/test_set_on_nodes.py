"""What table and users set reaches environments on other nodes, and actors placed anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import climbing
import pytest
from books import book_of
from clusters import Cluster
from helpers import SUPPORT

from artos.protocol import control

pytestmark = [pytest.mark.processes, pytest.mark.long]


def test_an_actor_that_is_placed_elsewhere_begins_with_what_was_set(
    code: Path, cluster: Cluster
) -> None:
    shutil.copy(SUPPORT / "climbing.py", code)
    with cluster.slowly():
        cluster.begin("climbing.py:workload", total_steps=2560, episodes=2)
        for node in ("w1", "w2"):
            cluster.open(node)
        cluster.place({0: "w1", 1: "w2"})
        cluster.until(lambda: [line for line in cluster.journal() if "set" in line])
        wanted = control.SetRun("run", {"env.level": 3, "max_lag": 0})
        cluster.messenger.send("run", wanted)
        cluster.until(lambda: len([line for line in cluster.journal() if "set" in line]) == 2)
        cluster.until_update(cluster.updates() + 5)
        cluster.kill_node("w2")
        cluster.place({0: "w1", 1: "w1"}, "w2", why="it is gone")
        cluster.until_update(cluster.updates() + 3)
    summary = cluster.finish()
    assert (summary["outcome"], summary["rows_lost"]) == ("done", 0)
    book = book_of(cluster.run_folder)
    climbing.assert_true(book, cluster.journal())
    assert {*book[:, 3].tolist()} >= {0, 3}, "the table's 5 may have been too short"
    assert book[-1, 2] == 2
    assert cluster.survivors() == []
