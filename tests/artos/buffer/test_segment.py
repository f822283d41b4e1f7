"""Files in shared memory: refused when foreign, reported when too large, reaped when orphaned."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from buffer_helpers import new_block
from helpers import PATIENCE

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.buffer.model_block import ModelBlock, ObjectSpec
from artos.buffer.segment import Segment
from artos.buffer.shm_folder import ShmFolder, reap_orphans
from artos.errors import LayoutMismatch, ShmTooSmall
from artos.specs.keys import ArraySpec, DataKey
from artos.system.machine import memory_id
from artos.system.shm import free_bytes

KEYS = (DataKey("rewards"),)


def model_block(path: Path) -> ModelBlock:
    return ModelBlock.create(path, [ObjectSpec.sized("model_param", [ArraySpec("w", (9,))], 2)])


def actor_file(folder: ShmFolder) -> Path:
    return new_block(folder.path, KEYS, 8).segment.path


def model_file(folder: ShmFolder) -> Path:
    return model_block(folder.path / "model").segment.path


KINDS = pytest.mark.parametrize(
    ("attach", "make"), [(ActorBlock.attach, actor_file), (ModelBlock.attach, model_file)]
)


@KINDS
def test_another_layout_version_is_refused(folder: ShmFolder, attach, make) -> None:
    path = make(folder)
    attach(path)
    with path.open("r+b") as file:
        file.seek(8)
        file.write((99).to_bytes(8, "little"))
    with pytest.raises(LayoutMismatch) as caught:
        attach(path)
    assert (caught.value.path, caught.value.found, caught.value.expected) == (str(path), 99, 1)
    assert "artos clean" in str(caught.value)


@KINDS
@pytest.mark.parametrize("share", [0.0, 1e-3, 0.01, 0.5, 0.99])
def test_a_truncated_file_is_refused(folder: ShmFolder, attach, make, share: float) -> None:
    path = make(folder)
    os.truncate(path, int(path.stat().st_size * share))
    with pytest.raises(LayoutMismatch):
        attach(path)


@KINDS
@pytest.mark.parametrize("size", [0, 1, 31, 32, 511, 512, 8192])
def test_a_foreign_file_is_refused(folder: ShmFolder, attach, make, size: int) -> None:
    path = folder.path / "foreign"
    path.write_bytes(np.random.default_rng(0).bytes(size))
    with pytest.raises(LayoutMismatch):
        attach(path)
    path.write_bytes(bytes(size))
    with pytest.raises(LayoutMismatch):
        attach(path)


@KINDS
def test_a_damaged_description_is_refused(folder: ShmFolder, attach, make) -> None:
    path = make(folder)
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"name"', b'"mane"'))
    with pytest.raises(LayoutMismatch):
        attach(path)


def test_the_kinds_of_blocks_are_not_mixed_up(folder: ShmFolder) -> None:
    with pytest.raises(LayoutMismatch):
        ActorBlock.attach(model_file(folder))
    with pytest.raises(LayoutMismatch):
        ModelBlock.attach(actor_file(folder))


def test_a_half_created_block_is_refused(folder: ShmFolder) -> None:
    """Its magic number comes last: a creator killed before leaves a file nobody attaches."""
    path = actor_file(folder)
    with path.open("r+b") as file:
        file.write(bytes(8))
    with pytest.raises(LayoutMismatch):
        ActorBlock.attach(path)


def test_too_large_a_block_says_what_is_there_and_leaves_nothing(folder: ShmFolder) -> None:
    available = free_bytes(folder.path)
    spec = BlockSpec(0, (DataKey("huge", (2**20,), "float64"),), capacity=2**16)
    with pytest.raises(ShmTooSmall) as caught:
        ActorBlock.create(folder.path / "huge", spec)
    assert caught.value.needed > 2**39
    assert 0 < caught.value.available <= 2 * available
    assert caught.value.folder == str(folder.path)
    assert not (folder.path / "huge").exists()
    with pytest.raises(ShmTooSmall):
        ModelBlock.create(
            folder.path / "huge", [ObjectSpec.sized("model_param", [ArraySpec("w", (2**36,))], 2)]
        )
    assert not (folder.path / "huge").exists()
    assert free_bytes(folder.path) > available / 2, "what was allocated on the way was given back"


def test_a_block_has_all_its_pages_from_the_start(folder: ShmFolder) -> None:
    path = actor_file(folder)
    assert path.stat().st_blocks * 512 >= path.stat().st_size


def test_a_segment_holds_no_descriptor(folder: ShmFolder) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    segments = [Segment.create(folder.path / "a", 4096), Segment.attach(folder.path / "a")]
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert len(segments[1]) == 4096


# -- orphans -----------------------------------------------------------------------------------

OWNER = """
import sys
from artos.buffer.shm_folder import ShmFolder
from artos.buffer.segment import Segment
folder = ShmFolder.create("orphan")
Segment.create(folder.path / "block", 4096)
print(folder.path, flush=True)
sys.stdin.read()
"""


def start_owner() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def make_old(path: Path, when: int = 1) -> None:
    os.utime(path, (when, when))


def test_the_folder_of_a_killed_run_is_reaped_that_of_a_live_one_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARTOS_SHM", str(tmp_path))
    live, live_path = start_owner()
    dead, dead_path = start_owner()
    try:
        make_old(live_path)
        make_old(dead_path)
        assert reap_orphans() == []
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        assert reap_orphans() == [dead_path]
        assert not dead_path.exists()
        assert (live_path / "block").exists()
    finally:
        for process in (live, dead):
            process.kill()
            process.communicate()
    ShmFolder.create("next").remove()
    assert list(tmp_path.iterdir()) == [], "starting another run reaps, and removing leaves nothing"


def test_the_rows_of_a_killed_run_are_kept_until_it_goes_on_or_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shm, run = tmp_path / "shm", tmp_path / "run"
    for folder in (shm, run / "checkpoint"):
        folder.mkdir(parents=True)
    manifest = run / "checkpoint" / "manifest.json"
    monkeypatch.setenv("ARTOS_SHM", str(shm))

    def killed() -> ShmFolder:
        folder = ShmFolder.create("run")
        folder.keep_for(run)
        for name in ("actor-0", "model", "images/1/core.img"):
            (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
            (folder.path / name).touch()
        make_old(folder.path)
        folder.leave()
        return folder

    killed()
    assert len(reap_orphans()) == 1, "without a checkpoint it cannot go on"
    manifest.touch()
    path = killed().path
    assert reap_orphans() == reap_orphans() == []
    assert sorted(each.name for each in path.iterdir()) == ["actor-0", "owner", "run"]
    assert ShmFolder.left_by(tmp_path / "other") == []
    (left,) = ShmFolder.left_by(run)
    assert ShmFolder.left_by(run) == [], "it is taken"
    make_old(path)
    assert reap_orphans(kept=True) == [], "nor is it removed meanwhile"
    left.leave()
    left.remove()
    assert path.exists(), "who has left it does not remove it"
    (left,) = ShmFolder.left_by(run)
    left.remove()
    path = killed().path
    assert reap_orphans(kept=True) == [path]
    path = killed().path
    (run / ".memory").write_text("another machine's")
    assert ShmFolder.left_by(run) == [], "it has gone on elsewhere since"
    assert not path.exists()
    path = killed().path
    (run / ".memory").write_text("another machine's")
    assert reap_orphans() == [path]
    path = killed().path
    shutil.rmtree(run)
    assert reap_orphans() == [path], "its run is gone"
    assert list(shm.iterdir()) == []


def test_rows_stay_kept_for_a_run_whose_folder_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = tmp_path / ".memory"

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for before in (memory_id(), "another machine's"):
        memory.write_text(before)
        folder = ShmFolder.create("run")
        try:
            refused = before != memory_id()
            with pytest.raises(OSError, match="No space") if refused else nullcontext():
                folder.keep_for(tmp_path)
        finally:
            folder.remove()
        assert memory.read_text() == before
        assert [*tmp_path.iterdir()] == [memory]


USER = """
import sys
from contextlib import nullcontext
from pathlib import Path
from artos.buffer.segment import Segment
folder = Path(sys.argv[2])
held = (folder / "block").open() if sys.argv[1] == "open" else Segment.attach(folder / "block")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("who", ["artos.runtime.template", "a notebook of the user's"])
@pytest.mark.parametrize("how", ["open", "map"])
def test_members_that_still_use_the_folder_of_a_dead_run_are_killed(
    how: str, who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARTOS_SHM", str(tmp_path))
    owner, path = start_owner()
    user = subprocess.Popen(
        [sys.executable, "-c", USER, how, str(path), who],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    try:
        assert user.stdout is not None
        assert user.stdout.readline() == "ready\n"
        make_old(path)
        reap_orphans()
        assert user.poll() is None
        owner.kill()
        owner.wait()
        assert reap_orphans() == [path]
        if who.startswith("artos"):
            assert user.wait(PATIENCE) == -signal.SIGKILL
        else:
            assert user.poll() is None
    finally:
        for process in (owner, user):
            process.kill()
            process.communicate()


@pytest.mark.parametrize("when", [1, 2**31 - 1], ids=["old", "clock_set_back_since"])
def test_a_folder_that_is_just_being_made_is_not_reaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: int
) -> None:
    monkeypatch.setenv("ARTOS_SHM", str(tmp_path))
    starting, unlocked = f"artos.starting.{1:016x}", f"artos.unlocked.{2:016x}"
    (tmp_path / starting).mkdir()
    (tmp_path / unlocked).mkdir()
    (tmp_path / unlocked / "owner").touch()
    for theirs in ("other", "artos.thesis", "artos.results.2024"):
        (tmp_path / theirs).mkdir()
    assert reap_orphans() == []
    for path in tmp_path.iterdir():
        make_old(path, when)
    assert sorted(path.name for path in reap_orphans()) == [starting, unlocked]
    there = sorted(path.name for path in tmp_path.iterdir())
    assert there == ["artos.results.2024", "artos.thesis", "other"], "none of them is ours"


def test_removing_twice_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARTOS_SHM", str(tmp_path))
    folder = ShmFolder.create("twice")
    folder.remove()
    folder.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a" * 250, "é" * 120])
def test_a_run_with_a_long_name_has_memory(name: str) -> None:
    folder = ShmFolder.create(name)
    try:
        assert folder.path.name.startswith(f"artos.{name[:20]}")
    finally:
        folder.remove()


@pytest.mark.parametrize("name", ["moved", "a name (deleted) of several\nlines"])
def test_whoever_parts_changes_its_own_memory_only(folder: ShmFolder, name: str) -> None:
    """Also where the file has another path by now, as that of an actor from another node has."""
    segment = Segment.create(folder.path / "here", 3 * 4096)
    segment.memory[:2] = b"ab"
    view = segment.memory[1:]
    path = segment.path.rename(folder.path / name)
    segment.part()
    assert bytes(view[:1]) == b"b"
    view[0] = ord("c")
    assert path.read_bytes()[:2] == b"ab"
    assert bytes(segment.memory[:2]) == b"ac"
