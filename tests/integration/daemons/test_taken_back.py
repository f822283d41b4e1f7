"""Notices that a machine is taken back, on a whole cluster: the run goes on elsewhere."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from real_cluster import Cluster
from test_cluster_life import COUNTING, RUN, finished, under_way

from deploy.client.head_client import HeadClient

pytestmark = [pytest.mark.processes, pytest.mark.long]

Given = tuple[str, Callable[[], object], str]
"""What ``--notice`` is given, what gives notice, and what the worker says of it."""


@contextmanager
def by_file(folder: Path) -> Iterator[Given]:
    file = folder / "taken"
    yield str(file), file.touch, f"{file} is there"


@contextmanager
def by_url(folder: Path) -> Iterator[Given]:
    """As clouds have it: an address of which there is nothing until the notice."""
    del folder
    given = threading.Event()

    class Metadata(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"action": "terminate"}' if given.is_set() else b""
            self.send_response(200 if body else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            del words

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        place = f"http://127.0.0.1:{server.server_port}/spot"
        try:
            yield place, given.set, f'{place} says {{"action": "terminate"}}'
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("way", [pytest.param(by_file, marks=pytest.mark.exhaustive), by_url])
def test_a_machine_that_is_taken_back_loses_nothing(
    cluster: Cluster,
    code: Path,
    tmp_path: Path,
    way: Callable[[Path], AbstractContextManager[Given]],
) -> None:
    with way(tmp_path) as (place, give, said):
        cluster.start_worker("w1", "--notice", place)
        cluster.start_worker("w2")
        cluster.alive("w1", "w2")
        submit = cluster.submit(*COUNTING, "--json", cwd=code)
        cluster.until_under_way(RUN)
        give()
        assert cluster.workers["w1"].wait() == 0, cluster.story()
    assert f"w1 leaves: this machine is taken back: {said}" in cluster.workers["w1"].said
    node = cluster.status()[0]["w1"]
    assert (node["alive"], node["leaves"]) == (False, f"this machine is taken back: {said}")
    summary = finished(cluster, submit)
    assert (summary["rows_lost"], summary["restarts"]) == (0, 0)
    assert cluster.stop() == {"w2": 0, "head": 0}


def test_a_machine_that_ends_before_a_move_does_is_left_in_time(
    cluster: Cluster, code: Path
) -> None:
    """Its actor, which hangs, is given up and goes on elsewhere while the machine is there."""
    submit = under_way(cluster, code, "w1", "w2")
    log = next((cluster.folder / "w1").glob("artos/nodes/*/*/logs/actor-*.log"))
    (hangs,) = (p for p in cluster.processes("") if str(log) in {f.path for f in p.open_files()})
    hangs.suspend()
    with HeadClient(cluster.endpoint, cluster.keys) as client:
        client.reclaim("w1", 3.0)
    began = time.monotonic()
    assert cluster.workers["w1"].wait() == 0, cluster.story()
    assert time.monotonic() - began < 12.0, "not the 30 s that it has otherwise"
    assert "w1 leaves: its machine is taken back" in cluster.workers["w1"].said
    assert "worker w1 said goodbye" in cluster.head.said
    assert finished(cluster, submit)["restarts"] == 1
    assert cluster.stop() == {"w2": 0, "head": 0}
