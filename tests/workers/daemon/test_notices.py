"""Notices by a file and by a URL: heard once, and silence is none."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from helpers import PATIENCE
from http_here import answering

from workers.daemon.notices import Notices, fault

PERIOD = 0.01


class Metadata(BaseHTTPRequestHandler):
    """Answers as the metadata service of a cloud does."""

    answer = (404, b"")
    asked = threading.Semaphore(0)

    def do_GET(self) -> None:
        status, body = type(self).answer
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)
        type(self).asked.release()

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def metadata() -> Iterator[str]:
    with answering(Metadata) as address:
        yield f"{address}/notice"


def heard(place: str) -> tuple[Notices, threading.Event, list[str]]:
    came, said = threading.Event(), list[str]()

    def leave(words: str) -> None:
        said.append(words)
        came.set()

    return Notices(place, leave, PERIOD), came, said


def test_a_file_is_a_notice_once_it_is_there(tmp_path: Path) -> None:
    notices, came, said = heard(str(tmp_path / "go"))
    with notices:
        assert not came.wait(5 * PERIOD)
        (tmp_path / "go").touch()
        assert came.wait(PATIENCE)
    assert said == [f"{tmp_path / 'go'} is there"]


def test_one_that_is_there_already_is_heard_at_once_and_once(tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    notices, came, said = heard(str(tmp_path / "go"))
    with notices:
        assert came.is_set()
        assert not threading.Event().wait(5 * PERIOD)
    assert len(said) == 1


def test_a_file_that_cannot_be_looked_for_once_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = threading.Event()

    def stale(path: Path) -> bool:
        if tried.is_set():
            return True
        tried.set()
        raise OSError(errno.ESTALE, "stale file handle", str(path))

    monkeypatch.setattr(Path, "exists", stale)
    notices, came, _ = heard(str(tmp_path / "go"))
    with notices:
        assert came.wait(PATIENCE)


def test_a_url_is_one_once_it_says_more_than_no(metadata: str) -> None:
    notices, came, said = heard(metadata)
    with notices:
        for status, body in ((404, b"not found"), (503, b"busy"), (200, b"FALSE"), (200, b" ")):
            Metadata.answer = (status, body)
            for _ in range(3):
                assert Metadata.asked.acquire(timeout=PATIENCE)
            assert not came.is_set(), (status, body)
        Metadata.answer = (200, b'{"action": "terminate"}')
        assert came.wait(PATIENCE)
    assert said == [f'{metadata} says {{"action": "terminate"}}']


def test_one_that_asks_for_a_token_is_told(metadata: str, caplog: pytest.LogCaptureFixture) -> None:
    Metadata.answer = (401, b"")
    notices, came, _ = heard(metadata)
    with notices:
        assert not came.is_set()
    assert f"{metadata} answers 401: no notice would be heard" in caplog.messages[0]


def test_one_that_does_not_answer_is_none(caplog: pytest.LogCaptureFixture) -> None:
    notices, came, _ = heard("http://127.0.0.1:1/")
    with notices:
        assert not came.wait(10 * PERIOD)


@pytest.mark.parametrize(
    ("place", "wrong"), [("/run/notice", False), ("http://m/x", False), ("ftp://m/x", True)]
)
def test_what_can_be_watched(place: str, wrong: bool) -> None:
    assert bool(fault(place)) is wrong
