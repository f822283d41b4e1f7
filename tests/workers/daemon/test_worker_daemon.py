"""A worker's daemon and its head, which is made up: how long each waits for the other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from artos.clock import ManualClock
from artos.errors import DeadlineExceeded, Refused
from artos.protocol.control import (
    PROTOCOL,
    ArchivePiece,
    Assign,
    CarryRun,
    ExecutorEnded,
    FetchArchive,
    Leave,
    Leaving,
    Load,
    RunEnded,
    Welcome,
)
from artos.protocol.message import Message, Restarted
from artos.system.archives import Archives, name_of
from artos.system.faults import Faults
from artos.transport.handshakes import LinkFault
from artos.transport.keys import make_keys, new_run_keys
from artos.transport.messenger import HEAD
from artos.version import VERSION
from workers.daemon import daemon
from workers.daemon.daemon import WorkerDaemon, WorkerOptions


class Line:
    """What the head says, and what it was told."""

    malformed = 0

    def __init__(self) -> None:
        self.link_fault: LinkFault | None = None
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
    (tmp_path / "joined").touch()  # as an earlier one that was killed left it
    options = WorkerOptions(
        "tcp://127.0.0.1:1", tmp_path / "keys", "w1", joined=tmp_path / "joined"
    )
    with WorkerDaemon(options, clock) as worker:
        yield worker
    assert not (tmp_path / "joined").exists()


def test_a_machine_that_is_taken_back_already_does_not_join(
    line: Line, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make_keys(tmp_path / "keys")
    (tmp_path / "notice").touch()
    options = WorkerOptions(
        "tcp://127.0.0.1:1", tmp_path / "keys", "w1", notice=str(tmp_path / "notice")
    )
    with WorkerDaemon(options, clock) as worker:
        worker.run()
    assert line.told == []


def test_it_says_how_much_shared_memory_may_be_taken(
    worker: WorkerDaemon, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARTOS_SHM_BYTES", "1")
    line.says.append(Welcome(PROTOCOL, VERSION, 10.0))
    worker.turn()
    (load,) = (each for each in line.told if isinstance(each, Load))
    assert load.shm_bytes == 1, "nothing; 0 would be any number"


def test_a_head_that_never_answers_is_waited_for_a_minute(
    worker: WorkerDaemon, clock: ManualClock
) -> None:
    clock.advance(59)
    worker.turn()
    clock.advance(2)
    with pytest.raises(DeadlineExceeded, match="to answer"):
        worker.turn()


def test_a_file_says_whether_it_is_with_the_head(
    worker: WorkerDaemon, line: Line, tmp_path: Path
) -> None:
    def joined(*said: Message) -> bool:
        line.says += said
        worker.turn()
        return (tmp_path / "joined").exists()

    welcome = Welcome(PROTOCOL, VERSION, 10.0)
    assert not joined()
    assert joined(welcome)
    assert not joined(Restarted())
    assert joined(welcome)
    line.link_fault = LinkFault.NOBODY
    assert not joined()
    line.link_fault = None
    assert joined()


def test_a_head_that_answered_once_may_come_up_for_a_moment_only(
    worker: WorkerDaemon, line: Line, clock: ManualClock
) -> None:
    line.says.append(Welcome(PROTOCOL, VERSION, 10.0))
    worker.turn()
    line.says.append(Restarted())  # and it is gone again before it answers
    worker.turn()
    clock.advance(1000)
    worker.turn()


ASSIGN = Assign("r2", 3, b"no plan", "/code", "", "tcp://h:1", "tcp://h:2", slots=1)


def told_of_the_end(worker: WorkerDaemon, line: Line, *orders: Message) -> list[Message]:
    line.told.clear()
    line.says += orders
    worker.turn()
    return [each for each in line.told if isinstance(each, ExecutorEnded | RunEnded)]


def test_who_waits_for_what_a_worker_that_leaves_was_to_open_is_told(
    worker: WorkerDaemon, line: Line
) -> None:
    carry = CarryRun("r3", 4, {}, "", "/runs/r3", new_run_keys())
    assert told_of_the_end(worker, line, Welcome(PROTOCOL, VERSION, 10.0)) == []
    worker._stop()
    executor, run = told_of_the_end(worker, line, ASSIGN, carry)
    why = "its node leaves: its worker was told to stop"
    assert executor == ExecutorEnded("r2", 3, why)
    assert run == RunEnded("r3", 4, None, why)


def test_who_waits_for_what_could_not_be_opened_is_told(
    worker: WorkerDaemon, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(head: str) -> str:
        raise Refused([f"{head} is not there"])

    assert told_of_the_end(worker, line, Welcome(PROTOCOL, VERSION, 10.0)) == []
    monkeypatch.setattr(daemon, "endpoint_of", gone)
    (ended,) = told_of_the_end(worker, line, ASSIGN)
    assert isinstance(ended, ExecutorEnded)
    assert (ended.run, ended.epoch) == ("r2", 3)
    assert "is not there" in ended.why


def test_code_comes_piece_by_piece(
    worker: WorkerDaemon, line: Line, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One at a time, also where two have asked for it; what a cut link left is asked for anew."""
    content = b"0123456789"
    name, came = name_of(content), list[tuple[str, str]]()
    monkeypatch.setattr(
        worker._executors, "archive_came", lambda name, why: came.append((name, why)) or []
    )

    def told(*said: Message) -> list[Message]:
        line.told.clear()
        line.says += said
        worker.turn()
        return [each for each in line.told if isinstance(each, FetchArchive)]

    def piece(begin: int, end: int) -> ArchivePiece:
        return ArchivePiece(name, begin, len(content), content[begin:end])

    assert told(Welcome(PROTOCOL, VERSION, 10.0), piece(0, 4)) == [FetchArchive(name, 4)]
    assert told(piece(0, 4)) == []
    assert told(Restarted()) == []
    assert told(Welcome(PROTOCOL, VERSION, 10.0), piece(0, 4)) == [FetchArchive(name, 4)]
    assert told(piece(4, 8)) == [FetchArchive(name, 8)]
    assert came == []
    assert told(piece(8, 10)) == []
    assert came == [(name, "")]
    assert Archives(tmp_path / "cache" / "artos" / "code").content(name) == content
    assert told(ArchivePiece(name)) == []
    assert "submit the run again" in came[-1][1]
    assert told(ArchivePiece(name, 0, 3, b"bad")) == []
    assert "damaged" in came[-1][1]


class Executors:
    """An executor that does not end by itself."""

    descriptors, empty = (), False
    runs: ClassVar = {"r1": 1}
    archives: ClassVar = {name_of(b"live")}

    def __init__(self) -> None:
        self.told: list[str] = []

    def step(self) -> list[Message]:
        return []

    def unassign_all(self) -> None:
        self.told.append("end")

    def kill(self) -> None:
        self.told.append("die")

    def archive_came(self, name: str, why: str) -> list[Message]:
        assert not why
        return []


def test_code_that_runs_here_makes_no_room_for_other_code(
    worker: WorkerDaemon, line: Line, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = Archives(tmp_path / "cache" / "artos" / "code")
    for content in (b"live", b"over", *(bytes([n]) for n in range(16))):
        kept.put(name_of(content), content)
    for content in (b"live", b"over"):
        os.utime(kept.folder / f"{name_of(content)}.tar", (1.0, 1.0))
    monkeypatch.setattr(worker, "_executors", Executors())
    line.says.append(ArchivePiece(name_of(b"new"), 0, 3, b"new"))
    worker.turn()
    there = [name_of(content) in kept for content in (b"live", b"over", b"new")]
    assert there == [True, False, True]


@pytest.mark.parametrize("ordered", [True, False])
def test_code_that_runs_here_is_not_removed_by_another_daemon_of_the_same_user(
    ordered: bool,
    worker: WorkerDaemon,
    line: Line,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """All share a folder: one removes what has not been used for long, and does not know by whom.

    An executor may run for longer than that, or be about to open.
    """
    shared, live = Archives(tmp_path / "cache" / "artos" / "code"), name_of(b"live")
    for content in (b"live", b"over", *(bytes([n]) for n in range(16))):
        shared.put(name_of(content), content)
    (shared.folder / live).mkdir()
    for content in (b"live", b"over"):
        os.utime(shared.folder / f"{name_of(content)}.tar", (1.0, 1.0))
    if ordered:
        line.says.append(msgspec.structs.replace(ASSIGN, archive=live))
        monkeypatch.setattr(worker._executors, "step", list)
    else:
        monkeypatch.setattr(worker, "_executors", Executors())
        line.says.append(Welcome(PROTOCOL, VERSION, 10.0))
        worker.turn()
        clock.advance(daemon._MARK_PERIOD)
    worker.turn()
    shared.put(name_of(b"new"), b"new")
    assert [name_of(content) in shared for content in (b"live", b"over")] == [True, False]
    assert (shared.folder / live).exists()


def test_code_that_is_not_here_yet_is_not_marked(worker: WorkerDaemon, line: Line) -> None:
    line.says.append(msgspec.structs.replace(ASSIGN, archive=name_of(b"new")))
    worker.turn()
    assert FetchArchive(name_of(b"new")) in line.told
    assert worker._faults.count == 0


def test_it_leaves_within_the_time_that_its_machine_still_has(
    worker: WorkerDaemon, line: Line, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third of it is for moves; that is true also if the time comes after a signal."""
    executors = Executors()
    monkeypatch.setattr(worker, "_executors", executors)
    line.says.append(Welcome(PROTOCOL, VERSION, 10.0))
    worker.turn()

    def said(*messages: Message, after: float) -> list[str]:
        clock.advance(after)
        line.says += messages
        executors.told.clear()
        worker.turn()
        return executors.told

    worker._stop()  # as on SIGTERM: it has 30 s
    assert said(after=0.0) == []
    assert [type(each) for each in line.told].count(Leaving) == 1
    assert said(Leave("its machine is taken back", 7.0), after=2.0) == [], "so 9 s in all"
    assert said(Leave("its machine is taken back", 20.0), after=0.5) == [], "as it knew before"
    assert said(after=1.0) == ["end"]
    assert said(after=5.0) == ["end"]
    assert said(after=1.0) == ["end", "die"]
