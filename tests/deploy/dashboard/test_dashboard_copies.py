"""Copies from a head: nobody waits for a long one, and who asks is told how far it has come."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

from artos.errors import DeadlineExceeded, NoHead, Refused, StillCopied
from artos.protocol.views import ClusterView, RunView
from deploy.client.fetch import fetch
from deploy.client.head_client import HeadClient
from deploy.dashboard import sources
from deploy.dashboard.answers import Answers
from deploy.dashboard.app import app_of
from deploy.dashboard.copying import Copying
from deploy.dashboard.sources import OfHead
from head.daemon.run_files import listed, piece

SECONDS = 60.0


class Connection:
    """Answers as a head does, one question at a time; a journal comes once it may."""

    may = threading.Event()
    begun = threading.Event()
    away: type[Exception] | None = None

    def __init__(self, folder: Path, made: list[Connection]) -> None:
        self._folder, self._busy, self.closed = folder, threading.Lock(), 0
        made.append(self)

    def _asked(self, answer: Any) -> Any:
        assert self._busy.acquire(blocking=False), "a connection takes one question at a time"
        try:
            if self.away:
                raise self.away("here", 9)
            return answer()
        finally:
            self._busy.release()

    def cluster(self) -> ClusterView:
        runs = (self.status("long"), self.status("queued"))
        return self._asked(lambda: ClusterView(runs=runs))  # type: ignore[no-any-return]

    def status(self, run: str) -> RunView:
        if run == "queued":
            return self._asked(lambda: RunView(name=run, state="queued"))  # type: ignore[no-any-return]
        return self._asked(lambda: RunView(name=run, state="done", outcome="done"))  # type: ignore[no-any-return]

    def files(self, run: str) -> Any:
        if run == "queued":
            raise Refused([f"run {run} has no files yet"])
        return self._asked(lambda: listed(self._folder))

    def file(self, run: str, name: str, offset: int) -> tuple[bytes, tuple[int, int]]:
        if name.startswith("journal"):
            self.begun.set()
            assert self.may.wait(SECONDS)
        found = self._asked(lambda: piece(self._folder, name, offset))
        return found.content, (found.size, found.changed)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def made() -> list[Connection]:
    return []


@pytest.fixture
def source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: list[Connection]
) -> Iterator[OfHead]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(HeadClient, "cluster", Connection.cluster)
    folder = tmp_path / "runs" / "long"
    (folder / "logs").mkdir(parents=True)
    config = {"workload": "ppo", "settings": {"lr": 0.5}, "folder": str(folder)}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "journal.jsonl").write_text('{"t":0,"firing":1,"trigger":"x"}\n' * 100_000)
    for event in (Connection.may, Connection.begun):
        event.clear()
    monkeypatch.setattr(sources, "_LOOK", 0.0)
    with OfHead("here", lambda: Connection(folder, made), patience=0.0) as source:  # type: ignore[arg-type, return-value]
        try:
            yield source
        finally:
            Connection.may.set()


def until_copied(source: OfHead) -> Path:
    """The copy, which may come from now on."""
    Connection.may.set()
    patient = threading.Event()
    for _ in range(int(SECONDS / 0.01)):
        try:
            return source.folder("long")
        except StillCopied:
            patient.wait(0.01)
    pytest.fail("it never came")


def test_others_are_answered_while_a_long_run_is_copied(
    source: OfHead, made: list[Connection]
) -> None:
    with pytest.raises(StillCopied) as told:
        source.folder("long")
    assert Connection.begun.wait(SECONDS)
    size = sum(size for size, _ in made[0].files("long").values())
    assert (told.value.run, told.value.there) == ("long", size)
    assert told.value.here < size
    assert [run.name for run in source.cluster().runs] == ["long", "queued"]
    assert len(made) == 2, "a copy has a connection of its own"
    copy = until_copied(source)
    assert listed(copy).keys() >= {"config.json", "journal.jsonl"}
    assert sum(size for size, _ in listed(copy).values()) == size
    source.close()
    assert [each.closed for each in made] == [1, 1]


def test_the_page_is_told_to_ask_again(source: OfHead) -> None:
    answers = Answers(source)
    told: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        told.append(message)

    scope = {
        "type": "http", "method": "GET", "path": "/api/runs/long/timeline", "root_path": "",
        "query_string": b"", "headers": [(b"host", b"localhost")], "scheme": "http",
        "server": ("localhost", 80), "client": ("localhost", 1), "http_version": "1.1",
    }  # fmt: skip
    anyio.run(app_of(answers), scope, receive, send)
    assert told[0]["status"] == 503
    assert dict(told[0]["headers"])[b"retry-after"] == b"1"
    assert "MB are here; ask again" in json.loads(told[1]["body"])["error"][0]


def test_curves_of_runs_that_are_being_copied_are_told_to_come(
    source: OfHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folder(name: str, what: str) -> Path:
        raise StillCopied(name, 1, 2)

    monkeypatch.setattr(source, "folder", folder)
    found = Answers(source).curves({})
    assert (found.copying, [*found.faults]) == (2, ["long", "queued"])


def test_a_copy_that_fails_says_so_and_is_tried_again(source: OfHead) -> None:
    Connection.may.set()
    copying = Copying(2.0, SECONDS)
    tried: list[int] = []

    def fails() -> None:
        tried.append(1)
        raise NoHead("here", "it is away")

    for _ in range(2):
        with pytest.raises(NoHead):
            copying.is_done("what", fails)
    assert len(tried) == 2


@pytest.mark.parametrize("away", [NoHead, DeadlineExceeded])
def test_what_was_copied_is_shown_while_the_head_is_away_with_its_age(
    source: OfHead, monkeypatch: pytest.MonkeyPatch, away: type[Exception]
) -> None:
    copy, answers = until_copied(source), Answers(source)
    of_run, of_all = answers.of_run(), answers.of_all()
    cluster = of_all["cluster"]({})
    monkeypatch.setattr(Connection, "away", away)
    os.utime(copy / ".copied", (0, 0))
    os.utime(copy / ".copy-of", (0, 0))
    found = {word: ask("long", {}) for word, ask in of_run.items() if word in ("", "timeline")}
    assert found[""]["config"]["settings"] == {"lr": 0.5}
    assert found["timeline"]["to"] == 0
    assert all(each["age"] > 1e9 for each in found.values())
    now = of_all["cluster"]({})
    assert 0 <= now.pop("age") < SECONDS
    assert now == cluster
    assert of_run[""]("queued", {})["state"] == "queued"
    for word in ("runs", "curves", "bill"):
        assert "age" in of_all[word]({})
    with pytest.raises(away):
        of_run["timeline"]("queued", {})
    with pytest.raises(away):
        answers.live("long")
    with pytest.raises(away):
        answers.metrics("")
    with OfHead("here", source._connect, patience=0.0) as again:
        listed_anew = Answers(again).of_all()["runs"]({})
    assert [run["name"] for run in listed_anew["runs"]] == ["long"], "by the copies alone"
    assert listed_anew["age"] > 1e9
    monkeypatch.setattr(Connection, "away", None)
    assert "age" not in of_all["runs"]({})


def test_a_copy_that_was_broken_off_is_not_shown_while_the_head_is_away(
    source: OfHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = until_copied(source)
    (copy / ".copied").unlink()
    monkeypatch.setattr(Connection, "away", NoHead)
    with pytest.raises(NoHead):
        Answers(source).of_run()["timeline"]("long", {})


def test_a_run_without_records_is_shown_without(
    source: OfHead, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = Answers(source).run("queued", {})
    assert (found["state"], found["config"]) == ("queued", {"learners": []})
    assert "no files yet" in found["journal"]["damage"]
    monkeypatch.setattr(source, "folder", lambda name: tmp_path)
    found = Answers(source).run("queued", {})
    assert (found["state"], found["config"]) == ("queued", {"learners": []})
    assert "no records yet" in found["journal"]["damage"]


@pytest.mark.parametrize(("error", "kept"), [(NoHead, 1), (Refused, 1), (DeadlineExceeded, 0)])
def test_a_connection_that_got_no_answer_is_not_used_again(
    source: OfHead, made: list[Connection], error: type[Exception], kept: int
) -> None:
    def fails(client: Any) -> None:
        raise error(*(("here", 9.0) if error is not Refused else (["no"],)))

    with pytest.raises(error):
        source._ask(fails)
    assert (made[0].closed, len(source._idle)) == (1 - kept, kept)
    source.cluster()
    assert len(made) == 2 - kept


def test_a_copy_is_new_for_a_while() -> None:
    now, made = [0.0], list[float]()
    copying = Copying(2.0, SECONDS, lambda: now[0])
    for now[0] in (0.0, 1.9, 2.0, 3.9, 4.5):
        assert copying.is_done("what", lambda: made.append(now[0]))
    assert made == [0.0, 2.0, 4.5]
    assert copying.is_done("another", lambda: made.append(-1.0))
    assert made[3:] == [-1.0]


def test_two_that_copy_into_one_folder_take_turns(
    source: OfHead, made: list[Connection], tmp_path: Path
) -> None:
    """Two dashboards of one head, which share what is copied."""
    target, folder = tmp_path / "copy", tmp_path / "runs" / "long"
    Connection.may.set()
    with ThreadPoolExecutor(8) as pool:
        copies = [
            pool.submit(fetch, Connection(folder, made), "long", target, "records", check=False)  # type: ignore[arg-type]
            for _ in range(8)
        ]
        assert [copy.result(SECONDS).state for copy in copies] == ["done"] * 8
    assert sum(copy.result().files for copy in copies) == 2, "one copied, the others saw it"
    assert (target / "journal.jsonl").read_bytes() == (folder / "journal.jsonl").read_bytes()
