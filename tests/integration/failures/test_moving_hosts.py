"""An actor moves by its image from one host to another, each with its own network and memory."""

from __future__ import annotations

import json
from typing import Any

import pytest
from books import book_of
from elastic import needs_criu
from machines import Machines

from artos.errors import CriuUnavailable
from workers.checkpoint.criu.find import FEATURES, find_criu

pytestmark = [needs_criu, pytest.mark.processes, pytest.mark.long]


def criu() -> dict[str, str]:
    """Nodes have caches of their own, where they would find none."""
    try:
        return {"ARTOS_CRIU": str(find_criu())}
    except CriuUnavailable:
        return {}


@pytest.mark.parametrize("cluster", [criu()], indirect=True)
def test_an_actor_of_a_drained_node_goes_on_on_another_host(cluster: Machines) -> None:
    submit = cluster.under_way()
    (actor,) = nodes(cluster)["w1"]
    cluster.ask("drain", "w1")
    cluster.until(lambda: nodes(cluster).get("w2") == [0, 1])
    cluster.hurry()
    assert submit.wait() == 0, cluster.story()
    for host in cluster.hosts.values():
        host.do("rm", "-rf", str(FEATURES))  # all that CRIU keeps
    summary = cluster.finished(submit)
    assert (summary["rows_lost"], summary["restarts"]) == (0, 0)
    lines = (cluster.runs / cluster.run / "journal.jsonl").read_text().splitlines()
    (line,) = [line for line in map(json.loads, lines) if line.get("start") == "moved"]
    assert (line["ready"], line["from"], line["to"]) == (f"actor {actor}", "w1", "w2")
    book = book_of(cluster.runs / cluster.run)
    assert len(set(book[book[:, 0] == actor][:, 2].tolist())) == 1, "it is the same process"


def nodes(cluster: Machines) -> dict[str, list[int]]:
    """Actors by node, as the run says."""
    found: dict[str, Any] = cluster.said_of_run()["facts"]
    places: dict[str, list[int]] = found["nodes"]
    return places
