"""A head that cannot be reached: users and workers say why, and tell wrong keys from no answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from helpers import PATIENCE
from test_head_daemon import Head

from artos.clock import Deadline
from artos.errors import DeadlineExceeded, NoHead, WrongKeys
from artos.protocol import control
from artos.system.logging_setup import logging_to
from artos.transport import messenger
from artos.transport.keys import make_keys
from deploy.cli.__main__ import main
from deploy.client.head_client import HeadClient
from workers.daemon.daemon import WorkerDaemon, WorkerOptions


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    with ExitStack() as stack:
        yield Head(tmp_path, stack)


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """The keys of another cluster."""
    make_keys(tmp_path / "others")
    return tmp_path / "others"


def test_a_client_with_nobody_to_ask_gives_up_in_words(head: Head) -> None:
    head.stop()
    with (
        HeadClient(head.endpoint, head.keys) as client,
        pytest.raises(NoHead, match=f"{head.endpoint}: nothing listens there"),
    ):
        client.exchange(control.ListRuns(), PATIENCE)


def test_a_client_says_which_key_is_wrong(head: Head, others: Path) -> None:
    with (
        HeadClient(head.endpoint, others) as client,
        pytest.raises(WrongKeys, match=r"others .*head\.key is not its key"),
    ):
        client.exchange(control.ListRuns(), PATIENCE)
    (others / "head.key").write_bytes((head.keys / "head.key").read_bytes())
    with (
        HeadClient(head.endpoint, others) as client,
        pytest.raises(WrongKeys, match="does not accept the key of user owner"),
    ):
        client.exchange(control.ListRuns(), PATIENCE)


def test_a_head_that_has_answered_may_be_away_for_a_while(head: Head) -> None:
    with HeadClient(head.endpoint, head.keys) as client, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.list_runs)
        head.until(asked.done)
        assert asked.result() == ()
        head.stop()
        with pytest.raises(DeadlineExceeded, match="to come back"):
            client.exchange(control.ListRuns(), 3.0)


def test_a_head_that_was_restarted_answers_what_it_is_asked(head: Head) -> None:
    asked = {HeadClient.limits: {"archive_mb": ANY}, HeadClient.list_runs: ()}

    with HeadClient(head.endpoint, head.keys, patient=False) as client, ThreadPoolExecutor(1) as p:

        def ask(question: Callable[[HeadClient], Any]) -> Any:
            answer = p.submit(question, client)
            head.until(answer.done)
            return answer.result()

        assert ask(HeadClient.limits) == asked[HeadClient.limits]
        head.stop()
        for question in asked:  # some are under way when the head turns out to be away
            with pytest.raises(NoHead):
                question(client)
        head.start(head.endpoint)
        deadline = Deadline(PATIENCE)
        for question, answer in [*asked.items()] * 2:
            while not deadline.passed:
                with suppress(NoHead):  # it takes a moment to notice that the head is back
                    assert ask(question) == answer
                    break
            else:
                pytest.fail("the head was not found again")


def test_a_head_that_is_there_and_does_not_answer_is_told_from_one_that_is_away(head: Head) -> None:
    """It has so much to do that it does not come to this request; here it does nothing at all."""
    with (
        HeadClient(head.endpoint, head.keys) as client,
        pytest.raises(DeadlineExceeded, match="can be reached, but is busy or stopped"),
    ):
        client.exchange(control.ListRuns(), 2.0)


def test_top_says_so_as_soon_as_its_head_is_gone(
    head: Head, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = threading.Event()

    def live(ask: Callable[[], Any], seconds: float, nothing: str) -> None:
        assert ask().runs == ()
        seen.set()
        head_is_there.result()
        head.stop()
        ask()

    monkeypatch.setattr("deploy.client.overview.live", live)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    with ThreadPoolExecutor(1) as pool:
        head_is_there = pool.submit(head.until, seen.is_set)
        assert main(["top", "--head", head.endpoint, "--keys", str(head.keys)]) == 1
    assert f"NoHead: there is no head at {head.endpoint}" in capsys.readouterr().err


@pytest.mark.parametrize("reason", ["keys", "nobody"])
def test_a_worker_says_once_why_it_reaches_nobody(
    reason: str, head: Head, others: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(others / "cache"))
    monkeypatch.setattr(messenger, "_RENEW", 0.2)
    words = "head.key is not its key"
    if reason == "nobody":
        head.stop()
        words = "nothing listens there"
    said: list[str] = []
    options = WorkerOptions(head.endpoint, others, "w1")
    with logging_to(said.append), WorkerDaemon(options) as worker:
        end = time.monotonic() + PATIENCE
        while not said or worker._messenger.silent()["head"] < 2:
            worker.turn()
            assert time.monotonic() < end
            time.sleep(0.005)
    (line,) = said
    assert words in line
    assert "w1 keeps trying" in line
