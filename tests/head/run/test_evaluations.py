"""Versions that are due are evaluated one at a time, beside a training that never waits for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from elastic_loop import STEPS, Troupe, full_batch, troupe
from named import EVALUATOR

from artos.protocol.invocations import Done, Invoke, Ready
from artos.runs.run_memory import RunMemory
from artos.specs.actor_count import Manual
from artos.specs.keys import EVALUATION
from artos.specs.members import Member
from artos.system.exit_report import ExitReport
from head.records.evaluations import Evaluated
from head.run.concerns.evaluation import Evaluation
from head.run.saved_books import resumed, saved
from triggers import TimeTrigger, UpdateTrigger
from triggers.base import Trigger
from triggers.events import Firing, Published
from triggers.journal import read

ACTORS, UPDATES = 2, 7


class WithEvaluator(Troupe):
    """Its evaluator plays when it is its turn, or only when ``play`` is called."""

    prompt = True
    scores: Mapping[int, float] = {}
    """Mean returns of versions that do not play as well as their number says."""

    def __init__(self, node: RunMemory, seed: int) -> None:
        super().__init__(node, seed)
        self.evaluator = EVALUATOR
        self._up.add(self.evaluator)

    def _can(self, member: Member) -> bool:
        return self.prompt if member == self.evaluator else super()._can(member)

    def _act(self, actor: int | Member, call: Invoke) -> Done:
        if actor != self.evaluator:
            return super()._act(actor, call)
        handed = self._node.evaluated
        assert handed is not None
        assert handed.newest.arrays["params"].tolist() == [handed.version]
        value = self.scores.get(handed.version, handed.version + 1.0) - 1.0
        return Done(call.firing, handed.version, returns=(value, value + 2), lengths=(3, 5))

    @property
    def asked(self) -> deque[Invoke]:
        return self._queues.get(self.evaluator, deque())

    def play(self) -> None:
        done = self._act(self.evaluator, self.asked.popleft())
        self.coordinator.receive(self.evaluator, done)

    def fail(self, *, fatal: bool = False) -> None:
        self.coordinator.died(self.evaluator, ExitReport("joystick", own=True, fatal=fatal))

    @property
    def found(self) -> list[Evaluated]:
        return self.coordinator.concern(Evaluation).found

    @property
    def versions(self) -> list[int]:
        return [each.version for each in self.found]


@contextmanager
def evaluated(
    folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int = 0, *, every: Trigger | None = None
) -> Iterator[WithEvaluator]:
    monkeypatch.setattr("elastic_loop.Troupe", WithEvaluator)
    table = full_batch() | {EVALUATION: every or UpdateTrigger(2)}
    with troupe(Manual(ACTORS, ACTORS), table, 0, folder, seed, updates=UPDATES) as players:
        assert isinstance(players, WithEvaluator)
        yield players


@pytest.mark.parametrize("seed", range(8))
def test_the_first_and_the_last_and_those_between(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with evaluated(tmp_path, monkeypatch, seed) as players:
        players.begin()
        players.run()
        coordinator, versions = players.coordinator, players.versions
        assert {0, UPDATES} <= set(versions) <= {0, 2, 4, 6, UPDATES}
        assert len(versions) + coordinator.concern(Evaluation).skipped == 5
        for each in players.found:
            assert each.updates == each.version
            assert each.steps == each.version * ACTORS * STEPS
            assert (each.mean_return, each.std, each.episodes) == (each.version + 1, 1.0, 2)
            assert each.mean_length == 4.0
        assert (coordinator.progress.updates, coordinator.monitor.episodes) == (UPDATES, 0)
        coordinator.ports.journal.flush()
        lines = [*read(tmp_path / "journal.jsonl")]
    done = {line["done"]: line["version"] for line in lines if line.get("by") == "evaluator"}
    assert sorted(done.values()) == versions
    assert all(line["version"] >= 0 for line in lines if line.get("trigger") == EVALUATION)


def test_of_those_that_wait_only_the_newest_is_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with evaluated(tmp_path, monkeypatch) as players:
        players.prompt = False
        players.begin()
        players.run(updates=6)
        evaluations = players.coordinator.concern(Evaluation)
        assert len(players.asked) == 1
        assert evaluations.skipped == 2, "versions 2 and 4, as 6 waits"
        players.play()
        players.play()
        assert (players.versions, len(players.asked)) == ([0, 6], 0)


def test_what_waits_is_played_as_it_was_when_it_was_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slots of the model block are written anew meanwhile."""
    with evaluated(tmp_path, monkeypatch, every=UpdateTrigger(1000)) as players:
        players.prompt = False
        players.begin()
        players.run(updates=1)
        players.coordinator.engine.fire(EVALUATION, Firing())
        players.run(updates=UPDATES - 1)
        assert all(slot.version != 1 for slot in players._node.weights.slots)
        players.play()
        players.play()
        assert players.versions == [0, 1]


def test_the_weights_of_the_best_one_are_those_that_it_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with evaluated(tmp_path, monkeypatch, every=UpdateTrigger(1)) as players:
        players.scores = {2: 90.0, 4: 90.0, UPDATES: float("nan")}
        players.begin()
        players.run()
        evaluation = players.coordinator.concern(Evaluation)
        assert {2, 4, UPDATES} <= set(players.versions)
        assert evaluation.best is not None
        assert evaluation.unsaved is not None
        assert (evaluation.best.version, evaluation.best.mean_return) == (2, 90.0)
        assert evaluation.unsaved.version == 2
        assert evaluation.unsaved.arrays["params"].tolist() == [2.0]


def test_training_does_not_wait_and_the_end_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with evaluated(tmp_path, monkeypatch) as players:
        players.prompt = False
        players.begin()
        coordinator, clock = players.coordinator, players.clock
        while not coordinator.ending.trained:
            players.step()
        assert coordinator.progress.updates == UPDATES
        assert coordinator.waits()["evaluator"].startswith("running play")
        for _ in range(4):  # longer than a run may stand still, but episodes go on ending
            clock.advance(250.0)
            coordinator.look(players.evaluator)
            coordinator.tick()
        assert not coordinator.finished
        players.play()
        assert not coordinator.finished, "the last version is still to be played"
        players.play()
        assert coordinator.finished
        assert players.versions == [0, UPDATES]
        assert players.said == []


@pytest.mark.parametrize("late", [False, True])
def test_a_dead_evaluator_is_restarted_and_plays_the_same_version(
    late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with evaluated(tmp_path, monkeypatch) as players:
        players.prompt = False
        players.begin()
        players.run(updates=3)
        (call,) = players.asked
        if late:
            players.clock.advance(301.0)
            players.coordinator.tick()
        else:
            players.fail()
        players.coordinator.tick()
        who = players.evaluator
        assert [(what, member) for what, member in players.said if member == who] == [
            ("end", who), ("start", who)]  # fmt: skip
        players.coordinator.receive(players.evaluator, Ready(0.0))
        assert list(players.asked) == [call]
        players.play()
        assert players.versions == [0]


@pytest.mark.parametrize("fatal", [False, True])
def test_one_that_fails_again_and_again_does_not_end_the_training(
    fatal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with evaluated(tmp_path, monkeypatch) as players:
        players.prompt = False
        players.begin()
        evaluations, (call,) = players.coordinator.concern(Evaluation), players.asked
        for _ in range(1 if fatal else 4):
            assert not evaluations.failure
            players.fail(fatal=fatal)
            players.clock.advance(10.0)
            players.coordinator.tick()
        assert evaluations.failure == "joystick"
        assert "evaluator" not in players.coordinator.waits()
        players._starting.clear()
        done = Done(call.firing, 0, returns=(1.0,), lengths=(1,))
        players.coordinator.receive(players.evaluator, done)  # sent just before it was killed
        players.run()
        assert players.coordinator.progress.updates == UPDATES
        assert players.found == []


def test_stopping_finishes_what_is_played_and_begins_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with evaluated(tmp_path, monkeypatch) as players:
        players.prompt = False
        players.begin()
        players.run(updates=3)
        players.coordinator.ending.drain()
        while not players.coordinator.ending.trained:
            players.step()
        assert not players.coordinator.finished
        players.play()
        assert players.coordinator.finished
        assert players.versions == [0]


def test_a_version_that_was_evaluated_before_is_not_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with evaluated(tmp_path, monkeypatch) as players:
        before = Evaluated(0, 0, 0, 1.0, 0.0, 2, 4.0, 0.1)
        players.coordinator.concern(Evaluation).resumed([before], None)
        players.begin()
        assert not players.asked
        players.run()
        assert players.found[0] == before
        assert {0, UPDATES} <= set(players.versions)


def test_one_that_is_no_better_than_before_the_run_went_on_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with evaluated(tmp_path, monkeypatch) as players:
        before = Evaluated(0, 0, 0, UPDATES + 1.0, 0.0, 2, 4.0, 0.1)
        evaluation = players.coordinator.concern(Evaluation)
        evaluation.resumed([], before)
        players.begin()
        players.run()
        assert UPDATES in players.versions
        assert (evaluation.best, evaluation.unsaved) == (before, None)


def test_a_clock_does_not_have_a_version_played_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with evaluated(tmp_path, monkeypatch, every=TimeTrigger(1.0)) as players:
        players.begin()
        for _ in range(3):
            players.clock.advance(1.5)
            players.coordinator.tick()
        assert len(players.asked) == 1
        players.play()
        assert players.versions == [0]
        players.coordinator.ports.journal.flush()
        lines = [*read(tmp_path / "journal.jsonl")]
    assert sum(line.get("trigger") == EVALUATION for line in lines) == 1


def fired(trigger: Trigger, *events: Published) -> list[int]:
    found = [trigger.check(event, 0.0) for event in events]
    return [firing.version for firing in found if isinstance(firing, Firing)]


def test_updates_are_counted_however_many_make_a_version() -> None:
    """Eight updates make a version: the first that holds the 20th, the 40th, ... is due."""
    versions = [Published("model_param", v, updates=8 * v) for v in range(8)]
    others = [Published("noise_scale", 3, updates=400)]
    assert fired(UpdateTrigger(20), *versions[:1], *others, *versions[1:]) == [0, 3, 5]
    assert fired(UpdateTrigger(1), *versions) == list(range(8))


def test_a_resumed_run_goes_on_at_the_same_multiples() -> None:
    versions = [Published("model_param", v, updates=v) for v in range(37, 52)]
    assert fired(UpdateTrigger(10), *versions) == [37, 40, 50]


def test_the_learner_is_not_the_evaluator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with evaluated(tmp_path, monkeypatch) as players:
        names = [*players.coordinator.waits()]
    assert names == ["learner", "actor 0", "actor 1", "evaluator"]


def test_what_waits_when_a_run_is_stopped_is_played_when_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with evaluated(tmp_path, monkeypatch) as players:
        players.prompt = False
        players.begin()
        players.run(updates=UPDATES)
        run = players.coordinator
        run.ending.drain()
        players.play()
        assert run.finished
        books = saved(run)
    (tmp_path / "again").mkdir()
    with evaluated(tmp_path / "again", monkeypatch) as players:
        resumed(players.coordinator, books)
        assert len(players.asked) == 1
        players.play()
        assert players.versions == [0, UPDATES]
