"""A worker's daemon and its head, which is made up: how long each waits for the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from artos.clock import ManualClock
from artos.errors import DeadlineExceeded
from artos.protocol.control import PROTOCOL, Welcome
from artos.protocol.message import Message, Restarted
from artos.system.faults import Faults
from artos.transport.keys import make_keys
from artos.transport.messenger import HEAD
from artos.version import VERSION
from workers.daemon import daemon
from workers.daemon.daemon import WorkerDaemon, WorkerOptions


class Line:
    """What the head says, and what it was told."""

    malformed, link_fault = 0, None

    def __init__(self) -> None:
        self.faults = Faults()
        self.says: list[Message] = []
        self.told: list[Message] = []

    def take(self) -> list[tuple[str, Message]]:
        says, self.says = self.says, []
        return [(HEAD, message) for message in says]

    def send(self, peer: str, message: Message) -> None:
        assert peer == HEAD
        self.told.append(message)


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    line = Line()
    monkeypatch.setattr(daemon.Messenger, "connect", lambda *_: nullcontext(line))
    return line


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def worker(
    line: Line, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make_keys(tmp_path / "keys")
    options = WorkerOptions("tcp://127.0.0.1:1", tmp_path / "keys", "w1")
    with WorkerDaemon(options, clock) as worker:
        yield worker


def test_a_head_that_never_answers_is_waited_for_a_minute(
    worker: WorkerDaemon, clock: ManualClock
) -> None:
    clock.advance(59)
    worker.turn()
    clock.advance(2)
    with pytest.raises(DeadlineExceeded, match="to answer"):
        worker.turn()


def test_a_head_that_answered_once_may_come_up_for_a_moment_only(
    worker: WorkerDaemon, line: Line, clock: ManualClock
) -> None:
    line.says.append(Welcome(PROTOCOL, VERSION, 10.0))
    worker.turn()
    line.says.append(Restarted())  # and it is gone again before it answers
    worker.turn()
    clock.advance(1000)
    worker.turn()
