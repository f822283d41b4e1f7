"""A member that is told to stop while its invocation waits for what others have."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from named import LEARNER, acting

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec, Consumer
from artos.buffer.mailbox import Board
from artos.errors import DeadlineExceeded, MailboxFull
from artos.protocol.invocations import Done, Failed, Invoke, Stop, encode
from artos.runtime import member as members
from artos.runtime.member import MOST_EPISODES, ActorRole, Line, Stopped, serve
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


def without_room(line: Line, folder: Path, deadline: float) -> tuple[ActorBlock, ActorRole]:
    """An actor whose block is full of rows that a learner holds."""
    consumers = (Consumer("learner.update", ("rewards",)),)
    spec = BlockSpec(0, (DataKey("rewards"),), 4, 1, consumers, "wait")
    block = ActorBlock.create(folder / "block", spec)
    block.allocate(4)
    block.commit(4)
    plan = SimpleNamespace(deadline=deadline, steps=4, short_rounds=False)
    context: Any = SimpleNamespace(block=block, actor=0, plan=plan)
    actor: Any = SimpleNamespace(setup=lambda _: None, changeable=())
    model: Any = None
    return block, ActorRole(actor, context, model, stopped=line.told_to_stop)


def test_an_actor_that_waits_for_room_ends_without_having_begun(
    board: Board, tmp_path: Path
) -> None:
    """The rows that it waits for are held by a learner that learns no more."""
    (member,) = acting(0)
    line, down = Line(board, member), board.down(member)
    block, role = without_room(line, tmp_path, 600.0)
    down.put(encode(Invoke(1, "actors.sample", "sample", stop=8)))
    down.put(encode(Stop(hand_over="held")))
    assert serve(role, line) == 0
    assert block.written == 4
    assert board.up(member).take() is None


def test_while_its_container_is_stopped_an_actor_has_not_waited_for_room(
    board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (member,) = acting(0)
    block, role = without_room(Line(board, member), tmp_path, 1.0)
    waits = list[float]()

    def wait(rows: int, seconds: float) -> int:
        waits.append(seconds)
        monkeypatch.setattr(time, "monotonic", lambda: 1e6 * len(waits))
        raise DeadlineExceeded("room", seconds)

    monkeypatch.setattr(block, "allocate", wait)
    with pytest.raises(DeadlineExceeded, match="gave up after 5 s waiting for room"):
        role.run(Invoke(1, "actors.sample", "sample", stop=8))
    assert sum(waits) == 5.0


def test_reports_wait_until_the_run_takes_those_before(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three rounds of very short episodes are more than a mailbox holds."""
    (member,) = acting(0)
    line, up = Line(board, member), board.up(member)
    many = (1.0,) * MOST_EPISODES
    rounds = [Done(n, 0, {}, {}, many, (1,) * MOST_EPISODES, begun=many) for n in range(4)]
    taken = list[bytes | None]()
    monkeypatch.setattr(time, "sleep", lambda _: taken.append(up.take()))
    for done in rounds:
        line.send(done)
    assert 0 < len(taken) < len(rounds), "only as many as room is needed for"
    taken += iter(up.take, None)
    assert taken == [encode(done) for done in rounds]


def test_a_report_that_nobody_makes_room_for_says_so(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    (member,) = acting(0)
    line = Line(board, member)
    monkeypatch.setattr(members, "_ROOM_SECONDS", 0.0)
    half = Failed(1, 0, "x" * 20_000)
    line.send(half)
    with pytest.raises(DeadlineExceeded, match="room in mailbox from actor 0"):
        line.send(half)
    with pytest.raises(MailboxFull):
        line.send(Failed(1, 0, "x" * 40_000))
