"""The dashboard of a head in a real browser: its cluster, and what is shown while it is away."""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from chromium import browsing
from dashboards import DRAWN, FAULT, SECONDS, TEXT, look, serving
from real_cluster import Cluster

from artos.errors import StillCopied
from artos.protocol.views import RunView
from deploy.cli.__main__ import main
from deploy.dashboard.answers import Answers
from deploy.dashboard.app import app_of
from deploy.dashboard.sources import Folders

pytestmark = [pytest.mark.long, pytest.mark.processes]
pytest.importorskip("websockets")
SAID = "(document.getElementById('view')?.innerText ?? '')"  # the page may not be there yet


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
            look(tab, address, f"run/{first['name']}/{view}", copied=True)
        look(tab, address, "cluster", copied=True)  # with what was logged before
        tab.wait(f"{TEXT}.includes('w1')", SECONDS)
        cluster.head.kill()
        tab.wait(FAULT, SECONDS)
        assert "head" in str(tab.value(FAULT)), tab.value(FAULT)
        assert "w1" in str(tab.value(TEXT)), "what was known last stays"
        tab.open("about:blank")
        tab.open(f"{address}#/run/{first['name']}/timeline")
        tab.wait(DRAWN, SECONDS)  # of what was copied
        tab.wait(f"({FAULT}).includes('shown as it was')", SECONDS)
        tab.open(f"{address}#/bill")
        tab.wait(f"{SAID}.includes('CPU s held')", SECONDS)
        tab.wait(f"({FAULT}).includes('shown as it was')", SECONDS)
        tab.errors.clear()
        cluster.start_head()
        tab.wait(f"({FAULT}) === ''", SECONDS)
        cluster.alive("w1")
        cluster.until(lambda: all(each["alive"] for each in asked(address, "cluster")["nodes"]))
        assert {first["name"], second["name"]} <= {each["name"] for each in runs(address)}
        assert tab.picture(tmp_path / "cluster.png").stat().st_size > 10_000


class Copied(Folders):
    """Runs of a head whose records come slowly: so often they are not here yet."""

    left = 0

    def folder(self, name: str, what: str = "") -> Path:
        if self.left:
            self.left -= 1
            raise StillCopied(name, 10**6, 10**9)
        return super().folder(name)

    def run(self, name: str) -> RunView:
        return RunView(name=name, state="done", outcome="done")


@contextmanager
def served(source: Folders, token: str = "") -> Iterator[str]:
    """The address of a page of these runs."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        app = app_of(Answers(source), token, ends=lambda: server.should_exit)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()


def test_the_page_says_how_far_a_copy_has_come_and_then_shows_the_run(tmp_path: Path) -> None:
    """Of a run that is over: nothing that happens makes the page ask again."""
    words = ("--total-steps", "2048", "--run-dir", str(tmp_path / "runs" / "long"), "--json")
    assert main(["run", "ppo", "--inline", *words]) == 0
    source = Copied(tmp_path / "runs")
    with served(source) as address, browsing(tmp_path) as tab:
        source.left = 10**9
        tab.open(f"{address}#/run/long/timeline")
        tab.wait(f"{SAID}.includes('1.0 of 1,000.0 MB are here')", SECONDS)
        assert tab.value(FAULT) == ""
        source.left = 0
        tab.wait(DRAWN, SECONDS)
        assert "being copied" not in str(tab.value(TEXT))
        source.left = 2
        tab.open("about:blank")
        tab.open(f"{address}#/curves?runs=long")
        tab.wait(f"{SAID}.includes('being copied')", SECONDS)
        tab.wait(f"!{SAID}.includes('being copied')", SECONDS)
        assert all("503" in error for error in tab.errors), tab.errors


def test_a_browser_without_the_token_is_told_what_to_open_and_one_with_it_keeps_it(
    tmp_path: Path,
) -> None:
    words = ("--total-steps", "2048", "--run-dir", str(tmp_path / "runs" / "one"), "--json")
    assert main(["run", "ppo", "--inline", *words]) == 0
    token = "t" * 32
    with served(Folders(tmp_path / "runs"), token) as address, browsing(tmp_path) as tab:
        for given in ("", f"?token={token[1:]}"):
            tab.open(f"{address}{given}")
            tab.wait("document.body?.innerText.includes('it has the token')")
            assert "one" not in tab.value("document.body.innerText").split()
            tab.errors.clear()  # it says that these were refused
        tab.open(f"{address}?token={token}#/run/one/timeline")
        tab.wait(DRAWN, SECONDS)
        assert tab.value("location.search") == "", "who is shown the page is not shown the token"
        assert tab.value("document.cookie") == "", "and a script does not get it"
        tab.open("about:blank")
        tab.open(f"{address}#/run/one/wiring")
        tab.wait("document.querySelector('svg rect') !== null", SECONDS)
        assert tab.value(FAULT) == ""
        assert all(f"{address}favicon.ico" in error for error in tab.errors), tab.errors
