"""A node that leaves, on a whole cluster: its actors go on elsewhere in mid-episode."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from elastic import needs_images
from real_cluster import Cluster
from real_runs import whole_timeline
from test_cluster_life import RUN, finished, under_way

from workers.checkpoint.criu.find import find_criu

pytestmark = [needs_images, pytest.mark.processes, pytest.mark.long]


def drain(cluster: Cluster) -> None:
    cluster.ask("drain", "w1")


def stop(cluster: Cluster) -> None:
    cluster.workers["w1"].signal(signal.SIGTERM)


@pytest.mark.parametrize("leave", [drain, pytest.param(stop, marks=pytest.mark.exhaustive)])
def test_actors_of_a_node_that_leaves_go_on_by_their_image(
    cluster: Cluster, code: Path, leave: Callable[[Cluster], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each worker here has a cache of its own, where it would find none.
    monkeypatch.setenv("ARTOS_CRIU", str(find_criu()))
    submit = under_way(cluster, code, "w1", "w2")
    (actor,) = facts(cluster)["nodes"]["w1"]
    leave(cluster)
    cluster.until(lambda: facts(cluster)["nodes"].get("w2") == [0, 1])
    summary = finished(cluster, submit)
    assert (summary["rows_lost"], summary["restarts"]) == (0, 0)
    assert summary["starts"]["moved"]["count"] == 1
    lines = (cluster.runs / RUN / "journal.jsonl").read_text().splitlines()
    (line,) = [line for line in map(json.loads, lines) if line.get("start") == "moved"]
    assert (line["ready"], line["from"], line["to"]) == (f"actor {actor}", "w1", "w2")
    drawn = whole_timeline(cluster.runs / RUN).spans
    (moved,) = [span for span in drawn if span.kind == "start" and span.facts.get("to")]
    assert (moved.member, moved.facts["from"], moved.facts["to"]) == (f"actor {actor}", "w1", "w2")
    assert set(cluster.stop().values()) == {0}


def facts(cluster: Cluster) -> dict[str, Any]:
    """What the run says about itself."""
    found: dict[str, Any] = cluster.status()[1][RUN]["facts"]
    return found
