"""A role besides actors, learner and evaluator: its row in the table says all that must be known.

It is an echo, which answers when it is asked. Coordinator, board, mailboxes and the loop of a
member's process are those of every run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from elastic_loop import STEPS, full_batch, plan_of
from named import LEARNER

from artos.buffer.mailbox import Board
from artos.clock import ManualClock
from artos.protocol.invocations import Done, Invoke, Ready, Stop
from artos.runs.run_memory import RunMemory
from artos.runtime.member import Line, serve
from artos.specs.actor_count import Manual
from artos.specs.members import Member, Members, Role
from head.run.coordination.concern import NOTHING, Concern
from head.run.coordination.coordinator import Coordinator
from head.run.coordination.outline import Outline
from head.run.coordination.ports import Ports
from triggers import TimeTrigger
from triggers.events import Firing
from triggers.journal import Journal, read
from triggers.passers import Mailboxes
from triggers.targets import parsed

ECHOES = Role("echo", count=2, idle="a question", hosted=True)
TABLE = Members((*Members.of_run(1).roles, ECHOES))
FIRST, SECOND = TABLE.of("echo")


class Echo:
    """What runs in the process of such a member."""

    def run(self, call: Invoke) -> Done:
        return Done(call.firing, -1, {"heard": float(call.firing)})


class Mail:
    """``Processes``, as far as anything is asked of them here: only mailboxes."""

    def __init__(self, board: Board) -> None:
        self.board, self.boxes = board, Mailboxes(board)
        self.passers = self.boxes.passers

    def waits_for_slot(self, member: Member) -> bool:
        return False

    def unplaced(self, member: Member) -> str:
        return ""

    def answer(self, run: Coordinator) -> list[Member]:
        """Every echo answers what it was asked; who did something."""
        for member in TABLE.of("echo"):
            self.passers[member].pass_message(Stop())
            assert serve(Echo(), Line(self.board, member)) == 0  # type: ignore[arg-type]
        changed = self.board.changed()
        for member in changed:
            run.look(member)
            for message in self.boxes.take(member):
                run.receive(member, message)
        return changed


class Asking(Concern[Coordinator]):
    """Has both echoes answer when their trigger fires."""

    def fire(self, firing: Firing) -> None:
        role, method = parsed(firing.trigger)
        for member in self.run.members.of(role):
            self.run.invoke(member, Invoke(firing.number, firing.trigger, method))

    def answered(self, member: Member, call: Invoke, done: Done) -> Mapping[str, Any]:
        return done.metrics if member.role == ECHOES.name else NOTHING


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Coordinator]:
    plan, _ = plan_of(Manual(1, 1), full_batch(), 4)
    clock, journal = ManualClock(), Journal(tmp_path / "journal.jsonl")
    with RunMemory(plan, "echo", tmp_path) as node:
        mail = Mail(Board.create(tmp_path / "board", TABLE))
        made = Coordinator(
            Outline(steps=STEPS, members=TABLE),
            Ports.of(node, mail, clock, journal),  # type: ignore[arg-type]
        )
        asking = Asking(made)
        made.actors = range(1)
        made.wire({"echo.answer": TimeTrigger(1.0)}, {"echo": asking.fire}, [asking])
        made.begin()
        yield made
    journal.close()


def test_it_answers_when_asked(run: Coordinator, tmp_path: Path) -> None:
    mail: Any = run.ports.processes
    clock: Any = run.ports.clock
    for member in TABLE.of("echo"):
        run.receive(member, Ready(0.0))
    for number in (1, 2):
        clock.advance(1.0)
        run.tick()
        assert run.invocations.of(FIRST) == (Invoke(number, "echo.answer", "answer"),)
        assert mail.answer(run) == [FIRST, SECOND]
        assert len(run.invocations) == 0
    run.ports.journal.flush()  # type: ignore[attr-defined]
    lines = [line for line in read(tmp_path / "journal.jsonl") if "done" in line]
    assert [(line["done"], line["by"], line["heard"]) for line in lines] == [
        (1, "echo", 1.0), (1, "echo 1", 1.0), (2, "echo", 2.0), (2, "echo 1", 2.0)
    ]  # fmt: skip


def test_what_it_waits_for_is_said_in_its_words(run: Coordinator) -> None:
    for member in (LEARNER, *TABLE.of("echo")):
        run.receive(member, Ready(0.0))
    waits = run.roster.waits(range(0), 0, run.invocations)
    assert waits == {"learner": "rows", "echo": "a question", "echo 1": "a question"}
    run.invoke(SECOND, Invoke(7, "echo.answer", "answer"))
    waits = run.roster.waits(range(0), 0, run.invocations)
    assert waits["echo 1"] == "running answer (firing 7)"


def test_a_run_does_not_wait_for_it_unless_its_row_says_so(run: Coordinator) -> None:
    run.invoke(FIRST, Invoke(1, "echo.answer", "answer"))
    assert not run.roster.anybody_works(run.invocations)
