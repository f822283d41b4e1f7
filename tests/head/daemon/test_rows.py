"""What is saved are rows that were named when they changed: no change goes without its name."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from world_events import QUOTAS, events, happen
from worlds import World, empty

from head.daemon import rows
from head.daemon.quotas import Quota, Quotas
from head.daemon.run import Run
from head.daemon.scheduler import Scheduler
from head.daemon.unsaved import Table, Unsaved


@settings(max_examples=200)
@given(events(min_size=15))
def test_rows_that_were_named_are_all_that_changed(happened) -> None:
    world = World(scheduler=Scheduler(quotas=QUOTAS))
    for number, (event, which) in enumerate(happened):
        world = happen(world, event, which, number)
        saved, scheduler = world.saved(), world.scheduler
        queue = scheduler._queue._queue
        assert saved.runs == tuple(scheduler.runs.values())
        assert saved.nodes == tuple(each.known for each in world.roster if each.alive)
        assert saved.spent == scheduler.books.spent
        assert (saved.quotas, saved.queue.fair_turns) == (QUOTAS, queue.fair_turns)
        accounts = {each.workload: plain(each) for each in saved.queue.accounts}
        assert accounts == {name: plain(each) for name, each in queue.accounts.items()}


def plain(account: object) -> dict[str, object]:
    """Without those that wait: they are counted anew."""
    return {**msgspec.to_builtins(account), "waiting": 0}


def test_runs_and_workloads_that_are_forgotten_are_deleted(world: World) -> None:
    world.join("w1")
    for n in range(250):
        world.begin(f"r{n}")
        world.ended(f"r{n}", 0)
    saved = world.saved()
    assert saved.runs == tuple(world.scheduler.runs.values())
    assert {each.workload for each in saved.queue.accounts} == {run.name for run in saved.runs}
    assert len(saved.runs) < 250


def test_why_a_run_is_to_end_is_saved() -> None:
    world = World(scheduler=Scheduler(quotas=Quotas({"*": Quota(cpu_seconds=3.0)})))
    world.join("w1")
    world.begin("r1", "r2")
    for name in ("r1", "r2"):  # the news of one ends both
        world.news(name, usage={"cpu_seconds_held": 2.0})
        world.turn()
    for run in world.saved().runs:
        assert "has held 4 of 3 CPU-seconds" in run.why


def test_a_state_is_the_same_as_rows(world: World) -> None:
    world.join("w1")
    world.begin("r2", "r1")
    state, db = world.saved(), empty()
    rows.put(db, rows.all_of(state))
    again = rows.read(db)
    assert msgspec.json.encode(again) == msgspec.json.encode(state)
    assert [run.name for run in again.runs] == ["r2", "r1"]


def test_an_event_saves_as_many_rows_whoever_else_is_there() -> None:
    assert touched(3) == touched(30)


def touched(runs: int) -> int:
    world = World(actors=1)
    world.join("w1", slots=runs)
    world.begin(*(f"r{n}" for n in range(runs)))
    world.scheduler.unsaved.clear()
    world.scheduler.run_ended("r1", -9, "killed")
    world.scheduler.turn(world.clock.now())
    return len(world.scheduler.unsaved.rows)


def test_who_is_dropped_and_put_again_is_the_last() -> None:
    db, changes = empty(), Unsaved()
    for name in ("a", "b"):
        changes.put(Table.RUN, name, Run(name, {}, name))
    rows.put(db, changes)
    changes.drop(Table.RUN, "a")
    changes.put(Table.RUN, "a", Run("a", {}, "a", epoch=2))
    rows.put(db, changes)
    assert [(run.name, run.epoch) for run in rows.read(db).runs] == [("b", 0), ("a", 2)]


def test_what_was_put_before_it_was_dropped_is_gone() -> None:
    db, changes = empty(), Unsaved()
    changes.put(Table.RUN, "a", Run("a", {}, "a"))
    changes.drop(Table.RUN, "a")
    rows.put(db, changes)
    assert rows.read(db).runs == ()
