"""A member that is told to stop while its invocation waits for what others have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from named import LEARNER

from artos.buffer.mailbox import Board
from artos.protocol.invocations import Done, Invoke, Stop, encode
from artos.runtime.member import Line, Stopped, serve
from artos.specs.members import Members


class Role:
    """Carries out invocations once nobody told it to stop."""

    def __init__(self, line: Line, act: Callable[[Invoke], object]) -> None:
        self._line, self._act, self.done = line, act, list[int]()

    def run(self, call: Invoke) -> Done:
        self._act(call)
        if self._line.told_to_stop():
            raise Stopped
        self.done.append(call.firing)
        return Done(call.firing, 0)


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board.create(tmp_path / "board", Members.of_run(1))


def call(firing: int) -> bytes:
    return encode(Invoke(firing, "learner.update", "update"))


def test_it_ends_in_order_and_reports_nothing(board: Board) -> None:
    line, down = Line(board, LEARNER), board.down(LEARNER)
    down.put(call(1))

    def act(_: Invoke) -> None:
        down.put(call(2))
        down.put(encode(Stop()))

    role: Any = Role(line, act)
    assert serve(role, line) == 0
    assert role.done == []
    assert board.up(LEARNER).take() is None


def test_what_came_meanwhile_is_carried_out_in_order(board: Board) -> None:
    line, down = Line(board, LEARNER), board.down(LEARNER)
    for firing in (1, 2, 3):
        down.put(call(firing))
    meanwhile = {2: call(4), 4: encode(Stop())}
    role: Any = Role(
        line, lambda call: call.firing in meanwhile and down.put(meanwhile[call.firing])
    )
    assert serve(role, line) == 0
    assert role.done == [1, 2, 3]


def test_while_nothing_comes_it_does_what_there_is_to_do(board: Board) -> None:
    line, down = Line(board, LEARNER), board.down(LEARNER)
    duties = iter([0.0, 0.0, 60.0])

    def idle() -> float:
        seconds = next(duties)
        if seconds:
            down.put(encode(Stop()))
        return seconds

    role: Any = Role(line, lambda _: None)
    assert serve(role, line, idle) == 0
    assert next(duties, None) is None
