"""Changing a live run from outside: found by its folder, answered, refused, and gone when it is."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from artos.buffer.mailbox import Board
from artos.buffer.shm_folder import ShmFolder
from artos.errors import DeadlineExceeded, NotRunning, Refused
from artos.protocol.codec import encode
from artos.protocol.control import (
    PROTOCOL,
    RunReply,
    RunRequest,
    RunScaled,
    RunSet,
    ScaleRun,
    SetRun,
    StopRun,
)
from artos.runs.plan import Site
from artos.runtime.control import ControlServer, address_file, announced, scale, set_settings
from artos.specs.members import CONTROL, Member, Members
from artos.version import VERSION

MEMBERS = Members.of_run(2)


@pytest.fixture
def site() -> Iterator[Site]:
    folder = ShmFolder.create("control")
    try:
        yield Site(str(folder.path), MEMBERS.publisher, MEMBERS)
    finally:
        folder.remove()


def served(
    board: Board, server: ControlServer, answer: RunScaled, asked: Future[RunScaled]
) -> list[int]:
    """Serve the server as a node does until the control has its answer; what was asked for."""
    wanted: list[int] = []

    def decide(request: RunRequest) -> RunReply:
        assert isinstance(request, ScaleRun)
        wanted.append(request.actors)
        return answer

    while not asked.done():
        if board.doorbell.wait(0.5) and server.member in board.changed():
            server.serve(decide)
    return wanted


@pytest.mark.parametrize("fault", ["", "cannot continue with 12 actors: 8 are registered"])
def test_a_control_is_answered(fault: str, site: Site, tmp_path: Path) -> None:
    board = Board.create(site.board_path, MEMBERS)
    server = ControlServer(board)
    with announced(tmp_path, site), ThreadPoolExecutor(1) as pool:
        asked = pool.submit(scale, tmp_path, 12, 20.0)
        assert served(board, server, RunScaled(12, 16, fault), asked) == [12]
    if fault:
        with pytest.raises(Refused, match="8 are registered"):
            asked.result()
    else:
        assert (asked.result().actors, asked.result().most) == (12, 16)


def test_an_answer_that_comes_too_late_is_not_the_next_ones(site: Site, tmp_path: Path) -> None:
    board = Board.create(site.board_path, MEMBERS)
    server = ControlServer(board)
    board.up(Member(CONTROL)).put(encode(ScaleRun("run", 3, request=7)))  # given up, not yet seen
    with announced(tmp_path, site), ThreadPoolExecutor(1) as pool:
        asked = pool.submit(scale, tmp_path, 12, 20.0)
        assert board.doorbell.wait(20.0)
        server.serve(lambda request: RunScaled(request.actors, 16))  # type: ignore[union-attr]
        assert asked.result().actors == 12


def test_settings_are_answered_with_all_that_hold_or_with_all_faults(
    site: Site, tmp_path: Path
) -> None:
    board = Board.create(site.board_path, MEMBERS)
    server, asked = ControlServer(board), list[RunRequest]()

    def decide(request: RunRequest) -> RunReply:
        asked.append(request)
        return RunSet(2, {"learner.lr": 0.5}) if len(asked) == 1 else RunSet(fault="one\ntwo")

    with announced(tmp_path, site), ThreadPoolExecutor(1) as pool:
        for settings in ({"learner.lr": 0.5}, {"lr": 1.0}):
            told = pool.submit(set_settings, tmp_path, settings, 20.0)
            while not told.done():
                if board.doorbell.wait(0.5) and server.member in board.changed():
                    server.serve(decide)
            if len(asked) == 1:
                assert (told.result().number, told.result().settings) == (2, {"learner.lr": 0.5})
        with pytest.raises(Refused) as refused:
            told.result()
    assert refused.value.faults == ("one", "two")
    assert all(isinstance(each, SetRun) and each.run == tmp_path.name for each in asked)
    assert [each.settings for each in asked] == [{"learner.lr": 0.5}, {"lr": 1.0}]


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_what_no_message_can_carry_is_refused_before_anybody_is_asked(
    value: float, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match=r"learner\.lr=.*: write a finite number"):
        set_settings(tmp_path, {"learner.lr": value})


def test_nothing_is_found_where_nothing_runs(site: Site, tmp_path: Path) -> None:
    with pytest.raises(NotRunning, match=str(tmp_path)):
        scale(tmp_path, 3)
    Board.create(site.board_path, MEMBERS)
    with announced(tmp_path, site):
        assert address_file(tmp_path).exists()
    with pytest.raises(NotRunning):
        scale(tmp_path, 3)


def test_a_run_that_was_killed_is_not_running(site: Site, tmp_path: Path) -> None:
    with announced(tmp_path, site), pytest.raises(NotRunning):
        scale(tmp_path, 3)  # its address is still there, its memory is not


def test_a_run_that_does_not_answer_is_given_up(site: Site, tmp_path: Path) -> None:
    Board.create(site.board_path, MEMBERS)
    with (
        announced(tmp_path, site),
        pytest.raises(DeadlineExceeded, match="answer to `artos scale`"),
    ):
        scale(tmp_path, 3, seconds=0.05)


@pytest.mark.parametrize("content", [b"\xc1 nonsense", encode(StopRun("run"))])
def test_what_no_control_says_is_dropped_and_counted(content: bytes, site: Site) -> None:
    board = Board.create(site.board_path, MEMBERS)
    server = ControlServer(board)
    board.up(Member(CONTROL)).put(content)
    assert server.serve(lambda request: pytest.fail(f"asked for {request}")) == 1


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ({}, "an older ARTOS"),
        ({"protocol": 4, "version": "0.1.9"}, r"ARTOS 0\.1\.9 \(protocol 4\)"),
    ],
)
def test_a_run_of_another_version_is_refused_by_both_versions(
    written: dict[str, object], named: str, site: Site, tmp_path: Path
) -> None:
    address = {"board": str(site.board_path), "members": 3, "state": "running"}
    address_file(tmp_path).write_bytes(msgspec.json.encode(address | written))
    with pytest.raises(Refused, match=rf"{named}.*ARTOS {VERSION} \(protocol {PROTOCOL}\)"):
        scale(tmp_path, 2)
