"""A run that stands still is noticed, whoever waits for whom; clocks neither cause nor hide it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from elastic_loop import STEPS, Troupe, full_batch, troupe
from inline_runs import finished, registered
from named import LEARNER

from artos.clock import ManualClock
from artos.errors import DeadlineExceeded
from artos.protocol.invocations import Done, Invoke, Ready
from artos.specs.actor_count import Manual
from artos.specs.members import ACTORS, Member, Members
from head.run.concerns.failures import FailureLimits
from head.run.concerns.sampling import Sampling
from head.run.concerns.standstill import Standstill
from head.run.run import Run
from triggers import DataKeyTrigger, TimeTrigger
from triggers.journal import read
from triggers.table import Table

WAITS = {"learner": "rows", "actor 0": "version 1"}


class Watched:
    """A standstill, begun at 0 s, that is looked at at any time: a run in which nobody works."""

    def __init__(self, seconds: float) -> None:
        self.clock, self.clocks = ManualClock(), set[str]()
        self.run = SimpleNamespace(
            ports=SimpleNamespace(clock=self.clock), members=Members.of_run(1),
            roster=SimpleNamespace(
                all_ready=lambda actors: True, anybody_works=lambda calls, but_pulls: False
            ),
            invocations=(), actors=range(1),
            engine=SimpleNamespace(clocks=lambda: self.clocks), waits=lambda: WAITS,
            ending=SimpleNamespace(trained=False),
            learners={"learner": SimpleNamespace(began=0)},
            non_publishing=frozenset(), moved=0.0, vain=set(),
        )  # fmt: skip
        self.still = Standstill(cast(Run, self.run), FailureLimits.within(seconds))

    def at(self, now: float, *clocks: str) -> None:
        self.clock.advance(now - self.clock.now())
        self.clocks = {*clocks}
        self.still.tick()

    def moved(self, now: float) -> None:
        self.run.moved = now
        self.run.vain.clear()

    def learned(self, firing: int, version: int, nothing: str = "") -> None:
        done = Done(firing, version, nothing=nothing)
        self.still.answered(LEARNER, Invoke(firing, "learner.update", "update"), done)


@pytest.mark.parametrize("seconds", [2.0, 100.0, 600.0])
def test_it_is_told_after_the_deadline(seconds: float) -> None:
    watched = Watched(seconds)
    watched.at(seconds)
    with pytest.raises(DeadlineExceeded, match="learner waits for rows; actor 0 waits for") as told:
        watched.at(seconds + 0.1)
    assert told.value.seconds == seconds


def test_who_is_patient_is_told_once_meanwhile(logged: list[str]) -> None:
    watched = Watched(600.0)
    for now in (9.0, 11.0, 12.0):
        watched.at(now)
    assert len(logged) == 1
    assert "after 600 s (--deadline) the run ends: learner waits for rows" in logged[0]
    watched.moved(40.0)
    for now in (49.0, 51.0, 52.0):
        watched.at(now)
    assert len(logged) == 2
    watched.at(639.0)


def test_a_draw_that_found_nothing_is_told_once_and_named_as_the_cause(logged: list[str]) -> None:
    watched = Watched(2.0)
    for _ in range(3):
        watched.learned(4, 0, "max_lag leaves out 12")
    assert len(logged) == 1
    with pytest.raises(DeadlineExceeded, match=r"\(firing 4\) made no update: max_lag"):
        watched.at(2.1)
    watched.learned(5, 1)
    with pytest.raises(DeadlineExceeded) as told:
        watched.at(2.1)
    assert "max_lag" not in str(told.value)


def test_a_clock_hides_it_only_until_it_has_fired_in_vain() -> None:
    watched = Watched(2.0)
    watched.at(9.0, "actors.sample", "learner.update")
    watched.run.vain.add("actors.sample")
    watched.at(9.0, "actors.sample", "learner.update")
    with pytest.raises(DeadlineExceeded):
        watched.at(9.0, "actors.sample")
    watched.moved(9.0)
    watched.at(99.0, "actors.sample")


def test_the_update_that_published_nothing_is_named() -> None:
    watched = Watched(2.0)
    watched.learned(7, 0)
    with pytest.raises(DeadlineExceeded, match=r"learner.update \(firing 7\) returned.*self.fresh"):
        watched.at(3.0)
    watched.learned(8, 1)
    with pytest.raises(DeadlineExceeded, match=r"version 1$"):
        watched.at(3.0)


# -- in a run --------------------------------------------------------------------------------------


def clocked(t: float = 1.0) -> Table:
    """Full batches, for which actors sample by the clock alone."""
    return full_batch() | {"actors.sample": TimeTrigger(t)}


def wait(run: Troupe, seconds: float, times: int = 1) -> None:
    for _ in range(times):
        run.clock.advance(seconds)
        run.coordinator.tick()


def live_on(run: Troupe, seconds: int) -> None:
    """Time passes, and actors do what they are asked for."""
    for _ in range(seconds):
        wait(run, 1.0)
        while run._queues.get(Member(ACTORS, 0)):
            run.step()


def lines(folder: Path) -> list[dict[str, object]]:
    return [line for line in read(folder / "journal.jsonl") if "firing" in line]


@pytest.mark.parametrize("sync", [{}, {"actors.sync": TimeTrigger(1.0)}], ids=["", "pulling"])
def test_a_learner_that_publishes_nothing_is_found_out(sync: Table, tmp_path: Path) -> None:
    with troupe(Manual(1, 1), full_batch() | sync, 9, tmp_path) as run:
        run.begin()
        while not run._queues.get(LEARNER):
            run.step()
        call = run._queues[LEARNER].popleft()
        run.coordinator.receive(LEARNER, Done(call.firing, 0))
        with pytest.raises(DeadlineExceeded, match=r"learner.update .* without publishing"):
            live_on(run, 1000)


@pytest.fixture
def unpublished(tmp_path: Path) -> Iterator[Troupe]:
    """All are ready, and the learner has not published yet."""
    with troupe(Manual(2, 2), clocked(), 9, tmp_path) as run:
        run.coordinator.begin()
        for actor in range(2):
            run.coordinator.receive(Member(ACTORS, actor), Ready(0.0))
        yield run


def test_nobody_is_asked_to_act_before_there_are_weights(
    unpublished: Troupe, tmp_path: Path
) -> None:
    run = unpublished
    wait(run, 1.0, times=50)
    assert run._queues == {}
    run._publish(0, 0)
    run.coordinator.receive(LEARNER, Ready(0.0))
    run.coordinator.look(LEARNER)
    assert {str(m): [c.stop for c in calls] for m, calls in run._queues.items()} == {
        "actor 0": [STEPS], "actor 1": [STEPS]
    }  # fmt: skip
    run.coordinator.ports.journal.flush()
    assert [line["trigger"] for line in lines(tmp_path)] == ["actors.sample"]


def test_what_a_clock_finds_nobody_for_is_no_line_of_the_journal(tmp_path: Path) -> None:
    with troupe(Manual(2, 2), clocked(), 6, tmp_path) as run:
        run.begin()
        while not run.coordinator.finished:
            wait(run, 1.0, times=20)
            run.step()
        run.coordinator.ports.journal.flush()
        asked = [line["firing"] for line in lines(tmp_path) if line["trigger"] == "actors.sample"]
        done = {line.get("done") for line in read(tmp_path / "journal.jsonl")}
        assert set(asked) <= done, "each led to something"
        assert len(asked) <= 6


def test_a_block_that_nobody_empties_is_a_standstill_and_no_reason_not_to_stop(
    tmp_path: Path,
) -> None:
    """Actor 1 samples no more, so no batch becomes full, and actor 0 waits for room."""
    table = clocked() | {"learner.update": DataKeyTrigger(("rewards",), n=2, size=STEPS)}
    with troupe(Manual(2, 2), table, 50, tmp_path, capacity=2 * STEPS) as run:
        run.begin()
        run.coordinator.concern(Sampling).window.in_turn = lambda actors, rows: [0]  # type: ignore[method-assign]
        for _ in range(2):
            wait(run, 1.0)
            run.step()
        wait(run, 1.0, times=20)
        assert run.coordinator.waits()["actor 0"] == "room in its block"
        assert run._queues[Member(ACTORS, 0)], "it was asked for a round that it has no room for"
        with pytest.raises(DeadlineExceeded, match="actor 0 waits for room in its block"):
            wait(run, 1.0, times=400)
        assert not run.coordinator.finished
        run.coordinator.ending.drain()
        assert run.coordinator.finished


WORKLOAD = """
from dataclasses import replace

from triggers import ObjectKeyTrigger, TimeTrigger
from triggers.algorithms.ppo import workload as ppo


def workload():
    base = ppo("CartPole-v1", 2, 320, envs=1, steps=8, hidden=(8,), epochs=1, minibatches=1)
    both = ObjectKeyTrigger("model_param") | TimeTrigger(1e-6)
    return replace(base, triggers={**base.triggers, "actors.sample": both})
"""


def test_in_one_process_nobody_waits_for_room_that_the_learner_would_make(tmp_path: Path) -> None:
    (tmp_path / "hasty.py").write_text(WORKLOAD)
    registration = registered("hasty.py:workload", tmp_path)
    coordinator = finished(registration, tmp_path).coordinator
    assert coordinator.steps >= 320
    assert coordinator.progress.updates >= 19
    assert len([line for line in lines(tmp_path) if line["trigger"] == "actors.sample"]) <= 50
