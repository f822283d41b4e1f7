"""What is noted of an actor: every move by a method of its name, and nobody else changes it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import workers.actors
from artos.errors import ForbiddenMove
from artos.protocol.invocations import Done, Invoke, Rest
from artos.system.transitions import after
from workers.actors.actor_record import TABLE, ActorRecord, Move, State


class Shot:
    image = "image"
    operation = "dump"


SHOT: Any = Shot()
CHILD: Any = "child"
IMAGE: Any = "image"
REVIVAL: Any = "restore"

MOVES: dict[Move, Callable[[ActorRecord], None]] = {
    Move.START: lambda record: record.start(7.0),
    Move.STARTED: ActorRecord.started,
    Move.RUN: lambda record: record.run(7.0),
    Move.PARK: lambda record: record.park(7.0),
    Move.FREEZE: lambda record: record.freeze(7.0),
    Move.THAW: lambda record: record.thaw(7.0),
    Move.DUMP: lambda record: record.dump(SHOT, 7.0),
    Move.DUMPED: ActorRecord.dumped,
    Move.REFUSE: ActorRecord.refuse,
    Move.RESTORE: lambda record: record.restore(REVIVAL, "", 7.0),
    Move.RESTORED: lambda record: record.restored(CHILD, 7.0),
    Move.LOSE: lambda record: record.lose("truncated"),
    Move.EXPECT: lambda record: record.expect(7.0),
    Move.ARRIVE: lambda record: record.arrive(IMAGE),
    Move.HAND_OVER: lambda record: record.hand_over(7.0),
    Move.HANDED_OVER: lambda record: record.handed_over(whole=True),
    Move.DIE: ActorRecord.die,
    Move.END: ActorRecord.end,
}


def at(state: State) -> ActorRecord:
    """A record with something in every field."""
    return ActorRecord(
        2, state, CHILD, "clone", unanswered=1, stale=True, image=IMAGE, shot=SHOT,
        revival=REVIVAL, refused="why", refusals=2, lost="why", expected=1.0, asked=2.0, begun=3.0,
        idle_since=4.0,
    )  # fmt: skip


@pytest.mark.parametrize(("state", "move"), [*itertools.product(State, Move)])
def test_a_move_that_is_forbidden_changes_nothing(state: State, move: Move) -> None:
    record = at(state)
    before = vars(record).copy()
    try:
        leads_to = after(TABLE, state, move)
    except ForbiddenMove:
        with pytest.raises(ForbiddenMove):
            MOVES[move](record)
        assert vars(record) == before
    else:
        MOVES[move](record)
        assert record.state is leads_to


def test_nobody_but_the_record_changes_it() -> None:
    package = Path(workers.actors.__file__).parent
    changed = re.compile(
        r"\brecord\.\w+(?:, [\w.]+)* [-+]?= |\brecord\.(?:waiting|forecast)\.[a-z]+\("
    )
    found = {
        path.name: changed.findall(path.read_text())
        for path in package.rglob("*.py")
        if path.name != "actor_record.py"
    }
    assert "process_manager.py" in found
    assert not any(found.values()), found


def test_who_is_ended_begins_with_nothing_of_what_was() -> None:
    record = at(State.PARKED)
    record.add_call(Invoke(1, "t", "sample"), 5.0)
    assert record.entered_new_state()
    record.end()
    assert (record.busy, record.child, record.end_arrival(9.0)) == (False, None, None)
    assert (record.refused, record.refusals) == ("", 2), "what user code holds open stays"
    record.start(6.0)
    record.started()
    assert record.entered_new_state(), "what it keeps while it waits is counted from its start on"


def test_its_answer_says_how_it_rested() -> None:
    """Stopped, then an image, then back before it was needed; an image that was refused is none."""
    record = ActorRecord(2, State.RUNNING, CHILD)
    record.park(1.0)
    record.freeze(1.5)
    record.thaw(2.0)
    record.dump(SHOT, 2.0)
    record.refuse()
    record.dump(SHOT, 3.0)
    record.dumped()
    record.restore(REVIVAL, "", 5.0)
    record.restored(CHILD, 5.25)
    record.run(6.0)
    found = record.with_costs(Done(1, 0)).rested
    assert found == (
        Rest("frozen", 4.5, 0.5), Rest("checkpointed", 3.0, 2.0), Rest("restoring", 1.0, 0.25),
    )  # fmt: skip
    assert record.with_costs(Done(2, 0)).rested == (), "it is said once"


def test_what_goes_on_is_handed_over_once() -> None:
    dumping, restoring = at(State.DUMPING), ActorRecord(2, State.RESTORING, revival=REVIVAL)
    assert [dumping.call_off(), restoring.call_off()] == ["dump", "restore"]
    assert [dumping.call_off(), restoring.call_off()] == [None, None]
    assert (dumping.take_image(), dumping.take_image()) == ("image", None)
