"""A checkpoint is of one version and its own counters, and a full disk takes no good one away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from disks import full, needs_mount, small_disk
from elastic_loop import STEPS, Troupe, full_batch, troupe
from named import LEARNER, acting

from artos.buffer.object_region import ObjectRegion, ObjectSlot
from artos.errors import NotSaved
from artos.protocol.invocations import Invoke
from artos.protocol.usage import Usage
from artos.protocol.views import Status
from artos.runs import checkpoint
from artos.specs.actor_count import Manual
from artos.system.logging_setup import logging_to
from head.records.episodes import Episodes
from head.records.evaluations import Evaluated
from head.records.gaps import Gaps
from head.records.progress_log import ProgressLog, last_status
from head.records.run_folder import RunFolder
from head.records.telling import Telling
from head.records.tensorboard import TensorBoard
from head.run.concerns.evaluation import Due, Evaluation
from head.run.recorder import Recorder
from triggers.table import Table

ACTORS = 2
CONFIG = {"workload": "elastic", "settings": {}, "folder": ""}


@dataclass
class Recorded:
    """A run with records; ``said`` is what its user was told."""

    run: Troupe
    folder: RunFolder
    said: list[str] = field(default_factory=list)
    recorder: Recorder = field(init=False)
    looked: int = 0

    def usage(self) -> Usage:
        """What its nodes report: a second more at each look."""
        self.looked += 1
        return Usage(cpu_seconds_held=float(self.looked))

    def update(self) -> None:
        """The learner makes one more version, and says so."""
        self.run.run(updates=len(self.run.used) + 1)

    def publish(self) -> None:
        """The learner makes one more version, and has not said so yet."""
        while not self.run._queues.get(LEARNER):
            self.run.step()
        self.run._learn(self.run._queues[LEARNER][0])

    def record(self) -> None:
        """As after something happened, when a checkpoint is due."""
        self.run.clock.advance(10.0)
        self.recorder.update(lambda status: None, due=False)

    def play(self, *returns: float, untold: int = 0) -> None:
        """An actor says that these episodes have ended."""
        run = self.run.coordinator
        lengths = [8 for _ in returns]
        run.monitor.sampled(acting(0)[0], returns, lengths, {}, run.steps, untold=untold)

    def evaluate(self, version: int, mean: float) -> Evaluated:
        """The evaluator has played this version as the best so far."""
        evaluation = self.run.coordinator.concern(Evaluation)
        evaluation.best = found = Evaluated(version, 8, version, mean, 0.0, 2, 4.0, 0.1)
        call = Invoke(1, "evaluator.play", "play", steps=8)
        evaluation.unsaved = Due(
            call,
            version,
            8,
            version,
            {"params": np.zeros(0, "f4"), "scale": np.full(1, version, "f4")},
        )
        return found

    def finish(self) -> None:
        self.recorder.finish("failed", curve=False)

    @property
    def saved(self) -> int:
        """The version that was saved; fails if anything else in the checkpoint is of another."""
        arrays, manifest = checkpoint.load(self.folder.checkpoint)
        version = manifest.version
        assert manifest.updates == version
        assert manifest.steps == version * ACTORS * STEPS
        state = {name: array for name, array in arrays.items() if array.size}
        assert all(np.all(array == version) for array in state.values())
        return version


@contextmanager
def recorded(
    folder: Path, records: Path, more: Table | None = None, *, resumed: bool = False
) -> Iterator[Recorded]:
    """With ``more`` rows of the table; ``resumed``: from the checkpoint that is there."""
    said: list[str] = []
    with (
        logging_to(said.append),
        troupe(Manual(ACTORS, ACTORS), full_batch() | (more or {}), 40, folder) as run,
        RunFolder.resume(records) if resumed else RunFolder.create(records, CONFIG) as kept,
    ):
        plan, node, coordinator = run.coordinator.plan, run._node, run.coordinator
        before = checkpoint.read_manifest(kept.checkpoint) if resumed else None
        log = ProgressLog(kept, before.steps if before else None)
        board, gaps = TensorBoard.of(kept), Gaps()
        one = Recorded(run, kept, said)
        one.recorder = Recorder(
            plan, kept, log, board, node, coordinator, run.clock, gaps, before=before,
            usage=one.usage,
        )  # fmt: skip
        run.begin()
        yield one


@contextmanager
def recorded_on_small_disk(folder: Path) -> Iterator[tuple[Recorded, Path]]:
    """The same on a filesystem of its own, which is the second."""
    with (
        small_disk(folder / "disk", "256k") as disk,
        recorded(folder, disk / "run") as one,
    ):
        yield one, disk


def test_a_version_is_saved_with_its_counters(tmp_path: Path) -> None:
    with recorded(tmp_path, tmp_path / "run") as one:
        for version in range(3):
            one.record()
            assert one.saved == version
            one.update()


def test_the_bill_is_made_out_once_a_second_and_at_the_end(tmp_path: Path) -> None:
    """It takes a look at every process, and a status is wanted more often."""
    with recorded(tmp_path, tmp_path / "run") as one:
        for _ in range(8):
            one.recorder.status()
            one.run.clock.advance(0.25)
        assert one.looked == 2
        one.recorder.status()
        summary = one.recorder.finish("failed", curve=False)
        assert summary.usage.cpu_seconds_held == one.looked == 4
        assert one.recorder.status().usage["cpu_seconds_held"] == 4


def counts(folder: RunFolder, one: Recorded) -> tuple[int, int]:
    """Episodes in ``episodes.csv``, and those that the run counts."""
    return len(Episodes.read(folder.episodes)), one.recorder.status().episodes


def test_a_run_that_was_killed_counts_the_episodes_that_are_in_its_file(tmp_path: Path) -> None:
    """Whether they ended before its checkpoint, or after it and are played again."""
    with recorded(tmp_path, tmp_path / "run") as one:
        one.update()
        one.play(1.0)
        one.record()
        one.play(2.0, 3.0)
        one.update()
        one.recorder.save()  # before the file is due
        one.play(4.0, 5.0)
        one.run.step()
        one.run.coordinator.look(acting(0)[0])
        one.play(6.0)
        assert one.saved == 2
    with recorded(tmp_path, tmp_path / "run", resumed=True) as one:
        assert counts(one.folder, one) == (3, 3)
        one.play(7.0)
        summary = one.recorder.finish("done", curve=False)
        assert summary.status.episodes == len(Episodes.read(one.folder.episodes)) == 4
        assert last_status(one.folder.progress) == one.recorder.status()


def test_episodes_of_which_no_more_is_known_stay_counted(tmp_path: Path) -> None:
    with recorded(tmp_path, tmp_path / "run") as one:
        one.play(1.0, 2.0, untold=5)
        one.update()
        one.record()
    for _ in range(2):
        with recorded(tmp_path, tmp_path / "run", resumed=True) as one:
            assert counts(one.folder, one) == (2, 7)
            one.update()
            one.finish()


def test_histograms_of_a_resumed_run_begin_with_the_books_that_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list[Status]()
    monkeypatch.setattr(Telling, "resumed", lambda self, status: found.append(status))
    with recorded(tmp_path, tmp_path / "run") as one:
        one.record()
        one.update()
        one.record()
    assert found == []
    with recorded(tmp_path, tmp_path / "run", resumed=True) as one:
        one.run.coordinator.monitor.rows_stale = 7
        one.record()
        one.record()
    assert [status.rows_stale for status in found] == [7]


def test_what_is_published_in_that_moment_waits_for_its_counters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recorded(tmp_path, tmp_path / "run") as one:
        one.update()
        one.record()
        assert one.saved == 1
        pin = ObjectRegion.pin

        def late(region: ObjectRegion, reader: int, seconds: float = 10.0) -> ObjectSlot:
            monkeypatch.setattr(ObjectRegion, "pin", pin)
            one.publish()  # after all was looked at, before anything was copied
            return pin(region, reader, seconds)

        one.update()
        monkeypatch.setattr(ObjectRegion, "pin", late)
        one.record()
        assert one.run._node.weights.version == 3
        assert one.saved == 1


def test_what_the_learner_did_not_come_to_report_is_saved_with_its_counters(
    tmp_path: Path,
) -> None:
    with recorded(tmp_path, tmp_path / "run") as one:
        one.update()
        one.record()
        one.publish()
        one.finish()
        assert one.saved == 2


@pytest.mark.parametrize(
    ("costs", "pauses"),
    [
        ([5.0, 0.01, 0.01], [8, 2, 2]),
        ([5.0] * 5, [8, 32, 128, 500, 500]),
        ([0.01, 0.05], [2, 5]),
    ],
)
def test_a_slow_checkpoint_does_not_put_the_next_one_off_for_minutes(
    costs: list[float], pauses: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all are slow they still come to take a hundredth of the time."""
    with recorded(tmp_path, tmp_path / "run") as one:
        clock, saved = one.run.clock, list[float]()

        def save(*given: object, **more: object) -> None:
            saved.append(clock.now())
            clock.advance([*costs, 0.0][len(saved) - 1])

        monkeypatch.setattr(checkpoint, "save", save)
        for _ in range(len(costs) + 1):
            one.update()
            before = len(saved)
            while len(saved) == before:
                one.recorder.update(lambda status: None, due=False)
                clock.advance(0.25)
        found = [later - earlier for earlier, later in pairwise(saved)]
        assert found == pytest.approx(pauses, abs=0.6)


def test_the_best_version_is_kept_with_its_evaluation(tmp_path: Path) -> None:
    with recorded(tmp_path, tmp_path / "run") as one:
        assert Evaluated.of_best(one.folder.best) is None
        for version, mean in ((1, 20.0), (3, 21.5)):
            found = one.evaluate(version, mean)
            one.record()
            arrays, manifest = checkpoint.load(one.folder.best)
            assert (manifest.version, manifest.steps) == (version, 8)
            assert [array.tolist() for array in arrays.values()] == [[version]]
            assert Evaluated.of_best(one.folder.best) == found
        (one.folder.best / checkpoint.MANIFEST).write_text("{")
        assert Evaluated.of_best(one.folder.best) is None
        found = one.evaluate(4, 22.0)
        summary = one.recorder.finish("done", curve=False)
        assert Evaluated.of_best(one.folder.best) == summary.best == found


@needs_mount
def test_a_best_version_that_finds_no_room_is_kept_once_there_is(tmp_path: Path) -> None:
    with recorded_on_small_disk(tmp_path) as (one, disk):
        one.record()
        with full(disk):
            found = one.evaluate(1, 20.0)
            for _ in range(3):
                one.record()
            assert not (one.folder.best / checkpoint.MANIFEST).exists()
        about = [line for line in one.said if line.startswith("best/")]
        assert len(about) == 1
        assert "No space left on device" in about[0]
        one.record()
        assert Evaluated.of_best(one.folder.best) == found


@needs_mount
def test_a_full_disk_leaves_the_last_checkpoint_and_the_run(tmp_path: Path) -> None:
    with recorded_on_small_disk(tmp_path) as (one, disk):
        one.update()
        one.record()
        with full(disk):
            for _ in range(3):
                one.update()
                one.record()
                assert one.saved == 1
        about = [line for line in one.said if "checkpoint" in line]
        assert len(about) == 1
        assert "No space left on device" in about[0]
        one.record()
        assert one.saved == 4
        assert one.said[-1].endswith("written again")
        one.recorder.see_saved()


@needs_mount
def test_episodes_that_found_no_room_are_written_once_there_is(tmp_path: Path) -> None:
    with recorded_on_small_disk(tmp_path) as (one, disk):
        one.update()
        one.record()
        with full(disk):
            one.play(*[1.0] * 1000)
            one.record()
            one.play(2.0)
            one.record()
        one.update()
        one.record()
        assert counts(one.folder, one) == (1001, 1001)
        assert one.saved == 2


@needs_mount
def test_the_final_save_is_tried_again_and_its_failure_is_an_error(tmp_path: Path) -> None:
    with recorded_on_small_disk(tmp_path) as (one, disk):
        one.update()
        one.record()
        one.update()
        with full(disk):
            one.record()
            one.finish()
            with pytest.raises(NotSaved, match=r"version 2 could not be saved.*No space left"):
                one.recorder.see_saved()
            assert one.saved == 1


@needs_mount
def test_the_final_save_saves_what_could_not_be_saved_before(tmp_path: Path) -> None:
    with recorded_on_small_disk(tmp_path) as (one, disk):
        one.update()
        with full(disk):
            one.record()
        one.finish()
        one.recorder.see_saved()
        assert one.saved == 1
