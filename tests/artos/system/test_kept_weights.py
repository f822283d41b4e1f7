"""Weights that are kept in the user's cache: written once, and removed when nobody has a use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from artos.runs.cleanup import clean
from artos.system.kept_weights import draft_of, kept, tidy, used

WRITER = """
import sys
from artos.system.kept_weights import draft_of, kept
with draft_of(kept("a1")) as draft:
    draft.mkdir()
    (draft / "half").write_text("of it")
    print(draft, flush=True)
    sys.stdin.read()
"""
DAY = 86_400.0


@pytest.fixture(autouse=True)
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "artos" / "weights"


def write(checksum: str) -> Path:
    with draft_of(folder := kept(checksum)) as draft:
        assert draft is not None
        draft.mkdir()
        (draft / "model.safetensors").write_text("all of it")
    return folder


@contextmanager
def writing() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that has begun to write, and its draft."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_what_a_killed_process_has_not_finished_is_removed(weights: Path) -> None:
    """By ``artos clean``, not while it writes; other weights stay."""
    whole = write("b2")
    with writing() as (process, draft):
        assert (draft / "half").exists()
        assert tidy() == []
        assert (draft / "half").exists()
        process.kill()
        process.wait()
        assert draft in clean()
    assert {path.name for path in weights.iterdir()} == {whole.name, "b2.lock"}


def test_whoever_keeps_other_weights_removes_it_too(weights: Path) -> None:
    with writing() as (process, draft):
        process.kill()
        process.wait()
        write("b2")
        assert not draft.exists()
    (old := weights / ".c3-0123456789abcdef").mkdir()  # of an earlier release
    write("d4")
    assert old.exists()
    os.utime(old, (then := time.time() - 2 * DAY, then))
    write("e5")
    assert sorted(path.name for path in weights.iterdir() if path.is_dir()) == ["b2", "d4", "e5"]


def test_one_process_writes_and_the_others_wait_for_it(weights: Path) -> None:
    found: list[Path | None] = []

    def late() -> None:
        with draft_of(kept("a1")) as draft:
            found.append(draft)

    with draft_of(kept("a1")) as draft:
        assert draft is not None
        waiting = Thread(target=late)
        waiting.start()
        draft.mkdir()
    waiting.join(60)
    assert found == [None]
    assert (weights / "a1").is_dir()


def test_nothing_is_left_of_weights_that_cannot_be_written(weights: Path) -> None:
    def fail() -> None:
        with draft_of(kept("a1")) as draft:
            assert draft is not None
            draft.mkdir()
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        fail()
    assert not [path for path in weights.iterdir() if path.is_dir()]


def test_weights_that_nobody_has_used_for_thirty_days_are_removed(weights: Path) -> None:
    old, again, new = write("a1"), write("b2"), write("c3")
    for folder, days in ((old, 31), (again, 31), (new, 29)):
        os.utime(folder, (then := time.time() - days * DAY, then))
    used(again)
    assert tidy() == [old]
    assert {path.name for path in weights.iterdir() if path.is_dir()} == {again.name, new.name}


def test_what_users_keep_is_not_removed(weights: Path, tmp_path: Path) -> None:
    """Neither what has another name, nor what lies behind a link to where they have room."""
    mine = [weights / "old-model", tmp_path / "disk" / "a1", tmp_path / "disk" / ".ssh"]
    for folder in mine:
        folder.mkdir(parents=True)
        (folder / "file").touch()
        os.utime(folder, (then := time.time() - 99 * DAY, then))
    assert tidy() == []
    shutil.rmtree(weights)
    weights.symlink_to(tmp_path / "disk")
    assert tidy() == []
    assert all((folder / "file").exists() for folder in mine[1:])
