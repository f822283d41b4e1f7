"""IMPALA where actors are on other nodes: rounds come as they come, and none is too old or lost."""

from __future__ import annotations

import pytest
from clusters import Cluster

pytestmark = pytest.mark.processes

ACTORS, ROUND = 4, 4 * 20


@pytest.mark.long
def test_actors_stream_and_the_learner_corrects(cluster: Cluster) -> None:
    cluster.begin("impala", actors=ACTORS, total_steps=8_000)
    for node in ("w1", "w2"):
        cluster.open(node)
    cluster.place({actor: f"w{1 + actor % 2}" for actor in range(ACTORS)})
    summary = cluster.finish()
    assert cluster.statuses() == {"run": 0, "w1": 0, "w2": 0}, cluster.said()
    assert 8_000 <= summary["steps"] <= 8_000 + ACTORS * ROUND
    assert summary["updates"] == summary["steps"] // ROUND
    assert (summary["rows_lost"], summary["restarts"]) == (0, 0)
    assert 0 < summary["lag_max"] <= 2 * ACTORS
    assert summary["lag_by_actor"].keys() == {str(actor) for actor in range(ACTORS)}
    assert cluster.survivors() == []
