"""A server and those who ask it, in one process: what is open, answered, dropped, refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from artos.buffer.actor_block import INCARNATIONS
from artos.buffer.desk import Bell, Desk, first_number
from artos.buffer.request_block import RequestBlock, RequestSpec, block_bytes, uncast
from artos.clock import ManualClock
from artos.errors import BadAnswer, BadRequest, DeadlineExceeded, LayoutMismatch
from artos.runtime.answering import ServerRole
from artos.specs.keys import DataKey
from artos.specs.servers import Server, ServerSpec
from triggers import RequestTrigger
from triggers.gathering import Gathering

ACTORS, SEATS, ROWS = 3, 2, 4


class Sums(Server):
    """Adds up; remembers how many rows came together."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.found: Any = None

    def answer(self, asked: Any) -> Any:
        self.batches.append(len(asked["x"]))
        return self.found or {"sum": asked["x"].sum(1), "first": asked["x"][:, :1]}


class Stage:
    """A block in a file, one server at a time, and the actors that it rang."""

    def __init__(self, path: Path) -> None:
        asks = (DataKey("x", (2,)),)
        answers = DataKey("sum"), DataKey("first", (1,))
        spec = RequestSpec(ServerSpec("sums", asks, answers, ROWS, SEATS), ACTORS)
        self.path, self.block = path, RequestBlock.create(path, spec)
        assert path.stat().st_size == block_bytes(spec)
        self.rung: list[int] = []
        self.begin()

    def begin(self, record: Any = None) -> None:
        self.server = Sums()
        gathers = Gathering("sums.answer", RequestTrigger().encode(), _none, ManualClock())
        block = RequestBlock.attach(self.path)
        self.role = ServerRole(self.server, block, gathers, self.rung.append, record=record)

    def desk(self, actor: int, seat: int = 0, patience: float = 60.0, incarnation: int = 0) -> Desk:
        wait = (lambda _: self.role.answer_all() is None) if patience else (lambda _: False)
        block, bell = RequestBlock.attach(self.path), Bell(lambda: None, wait)
        return Desk(block, actor, seat, bell, patience, incarnation)


class Noted:
    """A record that says what could be seen when it was written; it may be full."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self.full = stage, False
        self.numbers: list[int] = []
        self.closed = False

    def write(self, columns: Any, answers: Any, version: int) -> None:
        del answers, version
        places, numbers, _ = columns
        assert (self._stage.block.answered[places] != numbers).all(), "nobody has seen it yet"
        if self.full:
            raise OSError(28, "No space left on device")
        self.numbers += numbers.tolist()

    def close(self) -> None:
        self.closed = True


def _none(name: str) -> Any:
    raise KeyError(name)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "requests-sums")


def rows(first: int, count: int = ROWS) -> Any:
    return np.arange(first, first + 2 * count, dtype=np.float32).reshape(count, 2)


def test_each_gets_the_answer_to_what_it_asked(stage: Stage) -> None:
    """Neighbours, others, and requests of fewer rows; together whatever is open."""
    for asking in ([(0, 0), (0, 1), (1, 0)], [(0, 1), (2, 0)], [(2, 1)]):
        for count in (ROWS, 3, 1):
            desks = [stage.desk(*place) for place in asking]
            sent = [rows(100 * n, count if n == 1 else ROWS) for n in range(len(desks))]
            for desk, x in zip(desks, sent, strict=True):
                desk.ask({"x": x})
            stage.role.answer_all()
            assert stage.server.batches[-1] == sum(map(len, sent))
            for desk, x in zip(desks, sent, strict=True):
                answer = desk.take()
                np.testing.assert_array_equal(answer["sum"], x.sum(1))
                np.testing.assert_array_equal(answer["first"], x[:, :1])
                assert desk.version == -1


def test_what_is_open_is_answered_once_and_its_actor_is_woken(stage: Stage) -> None:
    assert stage.rung == [0, 1, 2], "a successor wakes those whom it finds"
    stage.rung.clear()
    stage.desk(1).ask({"x": rows(0)})
    stage.desk(1, 1).ask({"x": rows(0)})
    stage.role.answer_all()
    stage.role.answer_all()
    assert stage.rung == [1]
    assert stage.server.batches == [2 * ROWS]


def test_a_successor_answers_what_was_open(stage: Stage) -> None:
    desk, other = stage.desk(0), stage.desk(2)
    other(x=rows(0))
    desk.ask({"x": rows(7)})
    stage.role.look()  # known to the server that is killed now
    stage.begin()
    np.testing.assert_array_equal(desk.take()["sum"], rows(7).sum(1))
    assert stage.server.batches == [ROWS], "nothing twice"


def test_the_request_of_an_actor_that_was_killed_is_dropped(stage: Stage) -> None:
    stage.desk(0).ask({"x": rows(0)})
    stage.role.look()
    successor = stage.desk(0)
    successor.ask({"x": rows(50, 2)})
    np.testing.assert_array_equal(successor.take()["sum"], rows(50, 2).sum(1))
    assert stage.server.batches == [2]


def test_an_answer_to_an_earlier_number_is_no_answer(stage: Stage) -> None:
    """The server has read a request, its actor is killed, the successor asks, the answer comes."""
    block = RequestBlock.attach(stage.path)
    stage.desk(0).ask({"x": rows(0)})
    places = block.open(block.answered.copy())
    numbers, (asked, counts) = block.asked[places], block.read(places)
    answers = stage.server.answer({name: array.copy() for name, array in asked.items()})
    late = stage.desk(0)
    late.ask({"x": rows(9)})
    block.answer(places, numbers, counts, answers, 5)
    np.testing.assert_array_equal(late.take()["sum"], rows(9).sum(1))


def test_what_is_answered_is_recorded_before_anybody_sees_it(stage: Stage) -> None:
    record: Any = Noted(stage)
    stage.begin(record)
    stage.desk(0)(x=rows(0))
    record.full = True
    np.testing.assert_array_equal(stage.desk(1)(x=rows(5))["sum"], rows(5).sum(1))
    assert record.closed, "the rest of the run cannot be replayed"
    stage.desk(2)(x=rows(0))
    assert len(record.numbers) == 1


def test_a_replay_numbers_requests_as_the_run_did(stage: Stage) -> None:
    """Whatever earlier incarnations of an actor have asked; on nodes these begin far above 0."""
    record: Any = Noted(stage)
    stage.begin(record)
    for incarnation in (0, 1, 2, 3 * INCARNATIONS + 3):
        desk = stage.desk(1, incarnation=incarnation)
        for _ in range(incarnation % 2 + 1):
            desk(x=rows(0))
        begin = first_number(incarnation)
        assert record.numbers == [*range(begin, begin + incarnation % 2 + 1)]
        record.numbers.clear()
    desk = stage.desk(2, incarnation=2)
    desk.last = first_number(1) + 6  # the actor goes on as the one that it was
    desk(x=rows(0))
    assert record.numbers == [first_number(1) + 7], "those of number 2 are free if it starts again"


def test_requests_of_an_actor_have_other_numbers_wherever_it_was() -> None:
    """On each node its incarnations begin where those of no other place are."""
    incarnations = [place * INCARNATIONS + n for place in (0, 1, 2, 16_383) for n in (0, 1, 65_535)]
    numbers = [first_number(each) for each in incarnations]
    assert numbers == sorted(numbers)
    assert min(b - a for a, b in pairwise(numbers)) >= 1 << 32
    assert first_number(50_000 * INCARNATIONS) < 1 << 62


@pytest.mark.parametrize(
    ("answered", "why"),
    [
        ({"sum": np.zeros(ROWS)}, "'first' is missing"),
        ({"sum": np.zeros(1), "first": np.zeros((ROWS, 1))}, r"'sum' has shape \(1,\); return"),
        ({"sum": np.zeros(ROWS), "first": np.zeros(ROWS)}, r"'first' has shape \(4,\)"),
        ({"sum": np.full(ROWS, 1j)}, "'sum' has dtype complex128, and float32 is declared"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(answered: Any, why: str, stage: Stage) -> None:
    stage.server.found = answered
    stage.desk(0).ask({"x": rows(0)})
    with pytest.raises(BadAnswer, match=why):
        stage.role.answer_all()


@pytest.mark.parametrize(("answered", "what"), [(None, "NoneType"), ([1.0], "list")])
def test_an_answer_that_is_no_dict_is_refused(
    answered: Any, what: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the last line, which returns it, is missing."""
    monkeypatch.setattr(stage.server, "answer", lambda asked: answered)
    stage.desk(0).ask({"x": rows(0)})
    why = f"'sums': answer returned a {what}: return a dict of arrays with the keys sum, first"
    with pytest.raises(BadAnswer, match=why):
        stage.role.answer_all()


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"y": rows(0)}, "'x' is missing"),
        ({"x": rows(0, ROWS + 1)}, r"'x' has shape \(5, 2\), not \(4, 2\): at most 4 rows"),
        ({"x": rows(0)[:, 0]}, r"'x' has shape \(4,\), not \(4, 2\)"),
        ({"x": rows(0) + 0j}, "'x' has dtype complex64, and float32 is declared"),
    ],
)
def test_a_request_that_does_not_fit_is_none(asked: Any, why: str, stage: Stage) -> None:
    with pytest.raises(BadRequest, match=why):
        stage.desk(0).ask(asked)
    stage.role.answer_all()
    assert stage.server.batches == []


@pytest.mark.parametrize(
    ("number", "kind", "to", "fits"),
    [(0, "float32", "int64", False), (0, "float32", "bool", False), (300, "int64", "uint8", False),
     (7, "int64", "uint8", True), (-1, "int64", "uint8", False), (1, "int64", "bool", True),
     (2, "int64", "bool", False), (2**40, "int64", "int32", False), (0, "float64", "float32", True),
     (0, "int64", "float32", True), (1, "bool", "int8", True), (7, "int64", "int32", True)],
)  # fmt: skip
def test_numbers_stay_what_they_are(number: int, kind: str, to: str, fits: bool) -> None:
    assert bool(uncast(np.full(2, number, kind), np.dtype(to))) != fits


def test_who_waits_in_vain_says_for_whom(stage: Stage) -> None:
    with pytest.raises(DeadlineExceeded, match="sums to answer a request of actor 2"):
        stage.desk(2, patience=0.0)(x=rows(0))


def test_another_file_is_not_taken_for_one(stage: Stage) -> None:
    data = bytearray(stage.path.read_bytes())
    data[0] ^= 1
    stage.path.write_bytes(data)
    with pytest.raises(LayoutMismatch, match="another magic number"):
        RequestBlock.attach(stage.path)
