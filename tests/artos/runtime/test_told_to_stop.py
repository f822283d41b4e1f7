"""A member that is told to stop while its invocation waits for what others have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from named import LEARNER, acting

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec, Consumer
from artos.buffer.mailbox import Board
from artos.protocol.invocations import Done, Invoke, Stop, encode
from artos.runtime.member import ActorRole, Line, Stopped, serve
from artos.specs.keys import DataKey
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


def test_it_says_whether_something_is_to_be_handed_over(board: Board) -> None:
    line, down = Line(board, LEARNER), board.down(LEARNER)
    role: Any = Role(line, lambda _: down.put(encode(Stop(hand_over="held"))))
    down.put(call(1))
    assert serve(role, line) == 0
    assert line.stop == Stop(hand_over="held")


def test_an_actor_that_waits_for_room_ends_without_having_begun(
    board: Board, tmp_path: Path
) -> None:
    """The rows that it waits for are held by a learner that learns no more."""
    (member,) = acting(0)
    consumers = (Consumer("learner.update", ("rewards",)),)
    spec = BlockSpec(0, (DataKey("rewards"),), 4, 1, consumers, "wait")
    block = ActorBlock.create(tmp_path / "block", spec)
    block.allocate(4)
    block.commit(4)
    line, down = Line(board, member), board.down(member)
    plan = SimpleNamespace(deadline=600.0, steps=4, short_rounds=False)
    context: Any = SimpleNamespace(block=block, actor=0, plan=plan)
    actor: Any = SimpleNamespace(setup=lambda _: None)
    model: Any = None
    role = ActorRole(actor, context, model, stopped=line.told_to_stop)
    down.put(encode(Invoke(1, "actors.sample", "sample", stop=8)))
    down.put(encode(Stop(hand_over="held")))
    assert serve(role, line) == 0
    assert block.written == 4
    assert board.up(member).take() is None
