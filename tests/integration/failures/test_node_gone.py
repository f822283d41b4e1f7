"""A worker node that is gone for good: its actors go elsewhere, and what was lost is listed."""

from __future__ import annotations

import signal
from collections.abc import Mapping

import pytest
from machines import Machines

pytestmark = [pytest.mark.processes, pytest.mark.long]


def assert_listed(cluster: Machines, node: str, committed: Mapping[int, int]) -> None:
    """What an actor committed there has arrived up to some row, and is listed from that one on."""
    (line,) = cluster.lost()
    actor, first = line["actor"], line["from"]
    assert line["node"] == node
    assert cluster.arrived(actor) == first < committed[actor]
    assert first + line["lost"] <= committed[actor] <= line["granted"]


def test_a_node_is_torn_down_with_its_memory(cluster: Machines) -> None:
    """Brought back it is welcome, and what it had on its disk is cleared away."""
    submit = cluster.under_way()
    committed = cluster.cut_off("w2")
    cluster.tear_down("w2")
    cluster.alive("w1")
    assert "gone (not heard for 4 s): w2" in cluster.head.said
    cluster.bring_back("w2")
    cluster.alive("w1", "w2")
    summary = cluster.finished(submit)
    assert summary["nodes"] == ["w1", "w2"]
    assert_listed(cluster, "w2", committed)


def test_a_link_is_cut_for_good(cluster: Machines) -> None:
    """The node is given up; told to stop, it ends by itself, though nobody hears its goodbye."""
    submit = cluster.under_way()
    committed = cluster.cut_off("w2")
    cluster.alive("w1")
    cluster.workers["w2"].signal(signal.SIGTERM)
    assert cluster.workers["w2"].wait() == 0
    cluster.finished(submit)
    assert_listed(cluster, "w2", committed)
