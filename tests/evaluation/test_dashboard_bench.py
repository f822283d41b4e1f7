"""What browsers of the benchmark ask a dashboard for."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from evaluation.dashboard import served
from evaluation.dashboard.browsers import Growing
from evaluation.dashboard.served import Browsers
from evaluation.lab.namespaces import until
from triggers.journal_index import JournalIndex

SECONDS = 60.0


class Dashboard(ThreadingHTTPServer):
    """Answers everything, and counts it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Asked)
        self.asked: Counter[str] = Counter()
        self.status = 200
        self.all = threading.Event()


class _Asked(BaseHTTPRequestHandler):
    server: Dashboard

    def do_GET(self) -> None:
        self.server.asked[self.path] += 1
        wanted = ("/api/runs", "/api/runs/a/timeline", "/api/runs/b/timeline", "/api/events?run=b")
        if all(self.server.asked[each] > 1 for each in wanted[:3]) and self.server.asked[wanted[3]]:
            self.server.all.set()
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(b"data: 1\n\n")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def asked() -> Iterator[Dashboard]:
    with Dashboard() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_browsers_that_follow_timelines_ask_for_them_again_and_again(
    asked: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_LIST_SECONDS", "TIMELINE_SECONDS"):
        monkeypatch.setattr(served, name, 0.01)
    host, port = asked.server_address[:2]
    with closing(Browsers((str(host), port), 4, ["a", "b"], follow=True)) as pages:
        assert asked.all.wait(SECONDS)
    assert (pages.told > 0, pages.drawn.total() > 0, pages.errors) == (True, True, [])
    assert asked.asked["/api/events?run="] == 0, "none of them shows the cluster"


def test_browsers_that_die_or_have_no_answer_are_told(
    asked: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_LIST_SECONDS", "TIMELINE_SECONDS"):
        monkeypatch.setattr(served, name, 0.01)
    monkeypatch.setattr(asked, "status", 503)
    host, port = asked.server_address[:2]
    with closing(Browsers((str(host), port), 2, ["a"], follow=True)) as pages:
        until("an answer that is none", lambda: pages.errors)
        with pytest.raises(SystemExit, match="503"):
            pages.check()
        monkeypatch.setattr(asked, "status", 200)
        until("events that end", lambda: pages._died)
        with pytest.raises(SystemExit, match="no more events"):
            pages.check(len(pages.errors) + 100)


def test_journals_grow_by_lines_that_an_index_finds(tmp_path: Path) -> None:
    model, folder = tmp_path / "model", tmp_path / "run"
    for each in (model, folder):
        each.mkdir()
    (model / "config.json").write_text("{}")
    lines = [
        {"t": 0.1, "firing": 1, "trigger": "learner.update"},
        {"t": 0.2, "done": 1, "by": "learner", "version": 1, "stop": 2},
    ]
    (model / "journal.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with Growing(model, [folder]) as growing:
        while not (folder / "journal.jsonl").exists():
            assert growing.goes_on
    with JournalIndex(folder / "journal.jsonl") as index:
        found = [line for _, line in index.lines(0, index.size)]
    assert None not in found
    assert [line["t"] for line in found if line] == sorted(line["t"] for line in found if line)
