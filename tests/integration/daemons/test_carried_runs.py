"""A run lives where the device is: it begins on a worker node, ends there, and leaves with it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from helpers import SUPPORT
from real_cluster import Cluster, Command

pytestmark = [pytest.mark.processes, pytest.mark.long]
RUN, ROWS = "r1", 20_000


@pytest.fixture
def placed(cluster: Cluster, code: Path) -> Command:
    """A run that asks for a device, under way where only w2 has one."""
    shutil.copy(SUPPORT / "placed.py", code)
    cluster.start_worker("w1", "--slots", 1)
    cluster.start_worker("w2", "--slots", 1, "--devices", "cpu:a")
    cluster.alive("w1", "w2")
    asked = ("placed.py:workload", "--device", "pool", "--total-steps", ROWS, "--run-dir", RUN)
    submit = cluster.submit(*asked, "--json", cwd=code)
    cluster.until_under_way(RUN)
    on(cluster, "w2")
    return submit


def on(cluster: Cluster, node: str) -> None:
    """Wait until the run is up there, and only there."""
    daemon = cluster.workers[node] if node else cluster.head

    def there() -> bool:
        run = cluster.status()[1][RUN]
        parents = [process.ppid() for process in cluster.processes("head.run ")]
        return (run["carrier"], run["state"]) == (node, "running") and parents == [
            daemon.process.pid
        ]

    cluster.until(there)


def assert_clean(cluster: Cluster, *nodes: str) -> None:
    cluster.until(lambda: cluster.left() == [])
    assert cluster.stop() == dict.fromkeys([*nodes, "head"], 0)
    ended = [node for node in cluster.workers if node in nodes]
    assert not [path for node in ended for path in (cluster.folder / node).glob("*/*/*.runs/*")]


def test_it_goes_on_elsewhere_when_its_node_is_drained_or_killed(
    cluster: Cluster, placed: Command
) -> None:
    cluster.start_worker("w3", "--slots", 1, "--devices", "cpu:b")
    cluster.alive("w1", "w2", "w3")
    cluster.ask("drain", "w2")
    assert cluster.workers["w2"].wait() == 0, cluster.story()
    saved = cluster.status()[1][RUN]["facts"]["steps"]
    on(cluster, "w3")
    cluster.workers["w3"].kill()
    on(cluster, "")
    cluster.hurry()
    assert placed.wait() == 0, cluster.story()
    summary = json.loads(placed.out)
    assert (summary["outcome"], summary["steps"]) == ("done", ROWS)
    run = cluster.status()[1][RUN]
    assert (run["restarts"], run["carrier"], 0 < saved < ROWS) == (2, "", True)
    assert_clean(cluster, "w1")


def test_it_moves_to_the_device_that_its_code_names(cluster: Cluster, code: Path) -> None:
    shutil.copy(SUPPORT / "placed.py", code)
    cluster.start_worker("w1", "--devices", "cpu:a")
    cluster.alive("w1")
    asked = ("placed.py:named", "--total-steps", ROWS, "--run-dir", RUN, "--json")
    submit = cluster.submit(*asked, cwd=code)
    cluster.until(lambda: RUN in cluster.status()[1])
    on(cluster, "w1")
    cluster.hurry()
    assert submit.wait() == 0, cluster.story()
    assert json.loads(submit.out)["steps"] == ROWS
    run = cluster.status()[1][RUN]
    assert (run["outcome"], run["carrier"]) == ("done", "")
    assert_clean(cluster, "w1")


def test_it_outlives_the_head_and_is_stopped_by_the_next(cluster: Cluster, placed: Command) -> None:
    cluster.head.kill()
    (before,) = cluster.processes("head.run ")
    cluster.start_head()
    cluster.alive("w1", "w2")
    on(cluster, "w2")
    assert cluster.processes("head.run ") == [before], "it went on without a head"
    assert cluster.ask("stop", RUN)["state"] == "stopping"
    assert placed.wait() == 130, cluster.story()
    run = cluster.status()[1][RUN]
    assert (run["outcome"], run["restarts"]) == ("interrupted", 0)
    assert_clean(cluster, "w1", "w2")
