"""A link that is cut for a while or slow: it costs time, and nothing else."""

from __future__ import annotations

import time

import pytest
from machines import Machines

pytestmark = [pytest.mark.processes, pytest.mark.long]


@pytest.mark.parametrize("cluster", [{"deadline": 30.0}], indirect=True, ids=["deadline30"])
def test_a_link_is_cut_and_slow_for_a_while(cluster: Machines) -> None:
    """Rounds of a megabyte are on their way meanwhile; the run says what it waits for."""
    submit = cluster.under_way("heavy")
    with cluster.cut("w2"):
        time.sleep(1.0)
    cluster.goes_on()
    cluster.hosts["w2"].throttle(10)
    cluster.goes_on()
    cluster.hosts["w2"].throttle(None)
    with cluster.cut("w2"):
        cluster.until(lambda: cluster.silence("w2") >= 10)
        places = cluster.said_of_run()["facts"]["nodes"]
    summary = cluster.finished(submit)
    assert sorted(places) == ["w1", "w2"], "nobody has moved"
    assert (summary["rows_lost"], summary["restarts"]) == (0, 0)
