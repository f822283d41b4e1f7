"""What table and users set, and what has fired: it stays so, whoever is killed, and once more."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import climbing
import numpy as np
import pytest
from books import book_of
from clusters import Cluster
from helpers import ROOT, SUPPORT
from occasions import OCCASIONS, ROWS

from artos.protocol import control
from head.records.progress_log import read_history

pytestmark = [pytest.mark.processes, pytest.mark.long]

NODES, ALONE = {0: "w1", 1: "w2"}, {0: "w1", 1: "w1"}


def sets(cluster: Cluster) -> list[dict[str, float]]:
    """What was set, by the journal; each part of a run begins with what it goes on with."""
    return [line["set"] for line in cluster.journal() if "set" in line]


def fired(cluster: Cluster, target: str) -> int:
    """How often a line of the table has fired."""
    return sum(line.get("trigger") == target for line in cluster.journal())


def begin(cluster: Cluster, workload: str, places: dict[int, str], **settings: Any) -> None:
    cluster.begin(workload, **settings)
    for node in sorted({*places.values()}):
        cluster.open(node)
    cluster.place(places)


def lose_learner_and_node(cluster: Cluster) -> None:
    """The actor of the node goes on elsewhere."""
    cluster.until_update(cluster.updates() + 5)
    cluster.kill_learner()
    cluster.until_update(cluster.updates() + 5)
    cluster.kill_node("w2")
    cluster.place(ALONE, "w2", why="it is gone")
    cluster.until_update(cluster.updates() + 5)


def test_rows_say_what_was_set_and_what_fired_once_fires_no_more(
    code: Path, cluster: Cluster
) -> None:
    """By the table, by hand, with numbers that a learner publishes, and with counts of rows."""
    shutil.copy(SUPPORT / "climbing.py", code)
    shutil.copy(Path(__file__).with_name("occasions.py"), code)
    with cluster.slowly():
        begin(cluster, "occasions.py:workload", NODES, total_steps=10**6)
        cluster.until(lambda: sets(cluster))
        by_hand = {"env.level": 3.0, "max_lag": 0.0, "learner.shown": 2.0}
        cluster.messenger.send("run", control.SetRun("run", by_hand))
        cluster.until(lambda: len(sets(cluster)) == 2)
        cluster.until(lambda: all(fired(cluster, target) for target in OCCASIONS))
        lose_learner_and_node(cluster)
        cluster.stop()
        before = cluster.finish()
    assert (before["outcome"], before["restarts"]) == ("interrupted", 2), cluster.said()
    learned, lines = len(book_of(cluster.run_folder)), len(cluster.journal())

    steps = before["steps"] + 10 * ROWS
    begin(cluster, "occasions.py:workload", ALONE, resume=True, total_steps=steps)
    summary = cluster.finish()
    assert (summary["outcome"], summary["restarts"]) == ("done", 0), cluster.said()
    assert sets(cluster) == [{"env.level": 5.0}, by_hand, by_hand]
    book, again = book_of(cluster.run_folder), cluster.journal()[lines:]
    climbing.assert_true(book, cluster.journal())
    np.testing.assert_array_equal(book[learned:, 2:], [[2, 3]] * (len(book) - learned))
    assert {line.get("configuration") for line in again if "done" in line} == {2}
    assert summary["lag_max"] == 0
    assert summary["progress"]["metrics/shown"] == 2.0
    counts = {target: fired(cluster, target) for target in OCCASIONS}
    assert counts == {
        "learner.once": 1, "learner.first": 3, "learner.beyond": 1,
        "learner.counted": summary["steps"] // ROWS,
    }  # fmt: skip
    assert cluster.survivors() == []


def test_a_curriculum_goes_on_from_its_level(code: Path, cluster: Cluster) -> None:
    shutil.copy(ROOT / "docs" / "examples" / "my_curriculum.py", code)
    begin(cluster, "my_curriculum.py:workload", NODES, total_steps=10**9)
    cluster.until(lambda: sets(cluster))
    cluster.messenger.send("run", control.SetRun("run", {"learner.lr": 1e-4}))
    cluster.until(lambda: any("learner.lr" in values for values in sets(cluster)))
    lose_learner_and_node(cluster)
    cluster.stop()
    before = cluster.finish()
    assert (before["outcome"], before["restarts"]) == ("interrupted", 2), cluster.said()
    parts = len(sets(cluster))

    steps = before["steps"] + 5 * 512
    begin(cluster, "my_curriculum.py:workload", ALONE, resume=True, total_steps=steps)
    summary = cluster.finish()
    assert (summary["outcome"], summary["restarts"]) == ("done", 0), cluster.said()
    levels = [values["env.length"] for values in sets(cluster) if "env.length" in values]
    known = [*dict.fromkeys(levels)]
    assert known == [3.0, 6.0, 12.0][: len(known)]
    assert len(levels) == len(known) + 1, "each is set once, and that of the resumed run said again"
    assert sets(cluster)[parts]["learner.lr"] == 1e-4
    last = read_history(cluster.run_folder / "progress.csv")[-1]
    assert float(last["settings/learner.lr"]) == 1e-4
    assert cluster.survivors() == []
