"""A run whose learner is fired by its own versions, and by every event, ends on a cluster, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from books import assert_each_row_once
from clusters import Cluster

pytestmark = [pytest.mark.processes, pytest.mark.long]

FIRED = """
from dataclasses import dataclass, replace

from counting import Bookkeeper, workload as made
from triggers import Firing, ObjectKeyTrigger, Trigger
from triggers.events import Recheck


@dataclass
class EachEvent(Trigger):
    def check(self, event, now):
        return None if isinstance(event, Recheck) else Firing()


class Fired(Bookkeeper):
    def again(self, batch, call):
        self.fresh = True
        return {}

    def look(self, batch, call):
        return {}


def workload(total_steps=6000):
    given, update = made(total_steps=total_steps), ObjectKeyTrigger("model_param")
    rows = replace(given.triggers["learner.update"], max_lag=None)
    table = {"learner.update": rows, "learner.again": update, "learner.look": EachEvent()}
    return replace(given, learner=Fired(), triggers={**given.triggers, **table})
"""


@pytest.mark.parametrize("why", ["done", "interrupted"])
def test_it_ends(why: str, code: Path, cluster: Cluster) -> None:
    (code / "fired.py").write_text(FIRED)
    steps = 640 if why == "done" else 10**6
    cluster.begin("fired.py:workload", total_steps=steps)
    cluster.open("w1")
    cluster.place({0: "w1", 1: "w1"})
    if why == "interrupted":
        cluster.until(lambda: [1 for line in cluster.journal() if line.get("by") == "actor 0"])
        cluster.stop()
    summary = cluster.finish()
    assert summary["outcome"] == why, cluster.said()
    if why == "done":
        assert_each_row_once(cluster.run_folder, summary["steps"], 2)
    assert cluster.survivors() == []
