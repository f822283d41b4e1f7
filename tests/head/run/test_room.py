"""Blocks for which the memory limit of the control group leaves no room are not made."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from elastic_loop import full_batch, troupe

from artos.buffer.actor_block import ActorBlock
from artos.buffer.samplers.patterns import Draw, Pattern, Prioritised, Sequences, Uniform
from artos.buffer.samplers.priority_memory import memory_bytes
from artos.buffer.shm_folder import PRIORITIES, ShmFolder, reap_orphans
from artos.errors import MemoryTooSmall, Refused
from artos.runs import run_memory
from artos.runs.cleanup import image_folder
from artos.runs.left_rows import LeftRows
from artos.runs.plan import Plan
from artos.runs.run_memory import (
    CacheMemory,
    RunMemory,
    cached_bytes,
    check_space,
    held_bytes,
    needed_bytes,
)
from artos.specs.actor_count import Manual
from artos.specs.data import DataSet
from artos.specs.elastic import Elastic
from artos.system.shm import shm_root


@pytest.fixture
def plan(tmp_path: Path) -> Iterator[Plan]:
    with troupe(Manual(1, 1), full_batch(), 100, tmp_path) as made:
        yield made.coordinator.plan


def leave(monkeypatch: pytest.MonkeyPatch, left: int | None) -> None:
    monkeypatch.setattr(run_memory, "memory_left", lambda: left)


def test_a_run_is_refused_where_it_would_be_killed(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    for enough in (needed_bytes(plan), None):
        leave(monkeypatch, enough)
        check_space(plan)
    leave(monkeypatch, needed_bytes(plan) - 1)
    with pytest.raises(MemoryTooSmall, match="use fewer actors, envs or steps, or raise the limit"):
        check_space(plan)


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [
        (Uniform(8), False), (Sequences(8, 4), False), (Sequences(8, 4, alpha=0.9), True),
        (Prioritised(8), True), (Prioritised(8, alpha=0), True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("of_data", [0, 3, 8])
def test_all_priorities_that_a_learner_keeps_are_counted(
    plan: Plan, pattern: Pattern, kept: bool, of_data: int
) -> None:
    if of_data:
        demos = DataSet("demos", "/demos.npz", rows=5000, envs=2, keys=plan.data_keys)
        plan = msgspec.structs.replace(plan, data=(demos,))
    draw = Draw("learner.update", ("rewards",), pattern, data={"demos": of_data} if of_data else {})
    files = [memory_bytes(plan.actors, plan.capacity * plan.envs)] if of_data < 8 else []
    files += [memory_bytes(1, 5000 * 2)] if of_data else []
    drawing = msgspec.structs.replace(plan, draws=(draw,))
    assert needed_bytes(drawing) - needed_bytes(plan) == (sum(files) if kept else 0)


def test_a_worker_opens_no_block_beyond_its_limit(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with CacheMemory(plan, "cache", tmp_path) as cache:
        leave(monkeypatch, 1000)
        with pytest.raises(MemoryTooSmall) as caught:
            cache.open(0, 1, 0)
        assert caught.value.needed > 1000 == caught.value.available
        assert not Path(cache.site.block_path(0)).exists()
        leave(monkeypatch, None)
        cache.open(0, 1, 0)
        assert cache.blocks.keys() == {0}


@pytest.mark.parametrize("fails", ["data", "block"])
def test_a_resume_that_is_refused_leaves_the_rows_where_they_were(
    fails: str, plan: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = msgspec.structs.replace(plan, actors=2)
    killed = ShmFolder.create("killed")
    try:
        block = killed.path / "actor-0"
        ActorBlock.create(block, plan.block(0))
        (killed.path / f"{PRIORITIES}learner.update").touch()
        where, what = (RunMemory, "_fill_data") if fails == "data" else (ActorBlock, "create")

        def refuse(*given: object) -> None:
            raise Refused(["the file has changed"])

        monkeypatch.setattr(where, what, refuse)
        with pytest.raises(Refused):
            RunMemory(plan, "resumed", tmp_path, left={0: block})
        there = sorted(path.name for path in killed.path.iterdir())
        assert there == ["actor-0", "owner", f"{PRIORITIES}learner.update"]
    finally:
        killed.remove()


def test_memory_that_cannot_be_kept_for_its_run_is_not_left_behind(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Plan, "keeps_rows", True)
    before = {*shm_root().iterdir()}
    with pytest.raises(FileNotFoundError):
        RunMemory(plan, "unkept", tmp_path, tmp_path / "gone")
    assert not [path for path in {*shm_root().iterdir()} - before if "unkept" in path.name]


def test_images_in_memory_have_room_of_their_own(plan: Plan, tmp_path: Path) -> None:
    """What is there of them is a part of that room, and not taken from that of other runs."""
    elastic = Elastic(images="tmpfs", image_mb=2)
    with_images = msgspec.structs.replace(plan, elastic=elastic)
    assert cached_bytes(with_images)[0] - cached_bytes(plan)[0] == 2_000_000
    with CacheMemory(plan, "cache.node", tmp_path) as cache:
        before, memory = held_bytes("node"), Path(cache.site.folder)
        image = image_folder(memory, "tmpfs", tmp_path, elastic.image_bytes) / "actor-0"
        image.mkdir()
        (image / "pages-1.img").write_bytes(bytes(1_000_000))
        assert held_bytes("node") - before == 1_000_000
        (image / "pages-2.img").write_bytes(bytes(2_000_000))
        assert held_bytes("node") - before == 2_000_000, "never more than the room"


def test_memory_that_is_removed_meanwhile_is_not_counted(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A worker's load is told each second, also in that in which an executor ends."""
    with CacheMemory(plan, "cache.node", tmp_path) as cache:
        cache.open(0, 1, 0)
        assert held_bytes("node") > 0 == held_bytes("no") == held_bytes("node-2")
        look = Path.iterdir

        def late(folder: Path) -> Iterator[Path]:
            shutil.rmtree(folder, ignore_errors=True)
            return look(folder)

        monkeypatch.setattr(Path, "iterdir", late)
        assert held_bytes("node") == 0
        monkeypatch.undo()


def test_rows_that_are_kept_for_a_killed_run_are_given_up_where_there_is_no_other_room(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "run" / "checkpoint").mkdir(parents=True)
    (tmp_path / "run" / "checkpoint" / "manifest.json").touch()

    def killed() -> Path:
        kept = ShmFolder.create("killed")
        kept.keep_for(tmp_path / "run")
        os.utime(kept.path, (1, 1))
        kept.leave()
        return kept.path

    path = killed()
    leave(monkeypatch, needed_bytes(plan))
    check_space(plan)
    assert path.exists(), "there is room"
    found = iter([0, needed_bytes(plan)])
    monkeypatch.setattr(run_memory, "memory_left", lambda: next(found))
    check_space(plan)
    assert not path.exists()
    assert path.name in caplog.text
    path = killed()
    with LeftRows(tmp_path / "run"):
        leave(monkeypatch, 0)
        with pytest.raises(MemoryTooSmall):
            check_space(plan)
        assert path.exists(), "somebody goes on with them"
    reap_orphans(kept=True)
