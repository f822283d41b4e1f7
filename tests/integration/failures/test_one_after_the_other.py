"""Every process of a cluster is killed once while a run goes on, also under clocks that jump."""

from __future__ import annotations

from pathlib import Path

import pytest
from machines import Machines
from real_cluster import ROOT

pytestmark = [pytest.mark.processes, pytest.mark.long]

JUMPING = {"PYTHONPATH": f"{Path(__file__).parent / 'jumping'}:{ROOT}"}
OF_THE_RUN = {"agent.log": "w2", "replay-0.log": "head", "learner.log": "head", "run.log": "head"}


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param({}, id="steady", marks=pytest.mark.exhaustive),
        pytest.param(JUMPING, id="jumping"),
    ],
    indirect=True,
)
def test_one_process_after_the_other_is_killed(cluster: Machines) -> None:
    """Nobody goes by the time of day, so that may jump by hours in every process."""
    submit = cluster.under_way(rows=19_200)
    cluster.until(cluster.has_saved)
    for log, host in OF_THE_RUN.items():
        cluster.kill(host, log)
        cluster.goes_on()
    cluster.head.kill()
    cluster.goes_on()
    cluster.start_head()
    cluster.alive("w1", "w2")
    cluster.workers["w2"].kill()
    cluster.start_worker("w2")
    cluster.alive("w1", "w2")
    cluster.goes_on()
    summary = cluster.finished(submit, lives=2)
    assert 0 < summary["seconds"] < 3600
