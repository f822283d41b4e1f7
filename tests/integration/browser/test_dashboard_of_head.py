"""The dashboard of a head in a real browser: its cluster, and what is shown while it is away."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import browsing
from dashboards import DRAWN, FAULT, SECONDS, TEXT, look, serving
from real_cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.processes]
pytest.importorskip("websockets")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A head and a worker with one slot, whose learners lease a device."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    there = Cluster(folder)
    try:
        there.start_worker("w1", "--slots", 1, "--devices", "cpu:a")
        there.alive("w1")
        yield there
    finally:
        there.close()


@pytest.fixture
def address(cluster: Cluster) -> Iterator[str]:
    with serving(*cluster.towards_head) as address:
        yield address


def asked(address: str, what: str) -> Any:
    with urllib.request.urlopen(f"{address}api/{what}", timeout=SECONDS) as answer:
        return json.load(answer)


def runs(address: str) -> Any:
    return asked(address, "cluster")["runs"]


def waits(run: Any) -> str:
    return str(run["waits_for"])


def leases(run: Any) -> Any:
    return (run.get("facts") or {}).get("leases")


def test_a_head_is_seen_to_go_and_to_come_back(
    cluster: Cluster, address: str, tmp_path: Path
) -> None:
    """Nodes, slots, leases and the queue over time; a head that is away is said to be."""
    learning = ("ppo", "--actors", 1, "--total-steps", 10**9)
    cluster.submit(*learning, "--device", "pool")
    cluster.until(lambda: [*map(leases, runs(address))] == [{"learner": "cpu:a"}])
    cluster.submit(*learning)
    cluster.until(lambda: [*map(bool, map(waits, runs(address)))] == [False, True])
    found = asked(address, "cluster")
    (node,) = found["nodes"]
    assert (node["name"], node["alive"], node["slots"], node["devices"]) == ("w1", True, 1, "cpu:a")
    assert found["pool"] is None, "that of this machine is none of the head's"
    first, second = found["runs"]
    assert node["runs"] == {first["name"]: 1}
    with browsing(tmp_path) as tab:
        look(tab, address, "cluster")
        tab.wait(DRAWN, SECONDS)
        tab.wait(f"{TEXT}.includes({json.dumps(second['waits_for'])})", SECONDS)
        text = str(tab.value(TEXT))
        for each in ("w1", "cpu:a", first["name"], second["name"], "Devices that learners lease"):
            assert each in text, text
        for view in ("timeline", "lags", "wiring", "logs", "run"):
            look(tab, address, f"run/{first['name']}/{view}")
        look(tab, address, "cluster")
        tab.wait(f"{TEXT}.includes('w1')", SECONDS)
        cluster.head.kill()
        tab.wait(FAULT, SECONDS)
        assert "head" in str(tab.value(FAULT)), tab.value(FAULT)
        assert "w1" in str(tab.value(TEXT)), "what was known last stays"
        cluster.start_head()
        tab.wait(f"({FAULT}) === ''", SECONDS)
        cluster.alive("w1")
        cluster.until(lambda: all(each["alive"] for each in asked(address, "cluster")["nodes"]))
        assert {first["name"], second["name"]} <= {each["name"] for each in runs(address)}
        assert tab.picture(tmp_path / "cluster.png").stat().st_size > 10_000
