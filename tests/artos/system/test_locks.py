"""Locks of files: one holder, whoever inherits it included; looking is in nobody's way."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import PATIENCE

from artos.buffer.shm_folder import ShmFolder
from artos.errors import DeadlineExceeded
from artos.runtime.control import address_file, scale
from artos.system.locks import FileLock, is_held


def taken(path: Path) -> FileLock:
    lock = FileLock.take(path)
    assert lock is not None
    return lock


def test_one_at_a_time_has_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with taken(path) as lock:
        assert is_held(path)
        assert FileLock.take(path) is None
        assert FileLock.take(path, seconds=0.01) is None
        lock.write("somebody with a long name")
        lock.write("me")
    lock.close()
    assert not is_held(path)
    with taken(path) as lock:
        assert lock.read() == "me"


def test_a_file_that_must_be_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileLock.take(tmp_path / "lock", create=False)
    with pytest.raises(FileNotFoundError):
        is_held(tmp_path / "lock")
    assert [*tmp_path.iterdir()] == []


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        FileLock.take(tmp_path / "lock")


def test_a_file_that_is_replaced_just_then_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, flock = tmp_path / "lock", fcntl.flock

    def replaced_first(descriptor: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        path.unlink()
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", replaced_first)
    with taken(path):
        assert is_held(path)  # the one that is there now


def test_who_only_looks_keeps_nobody_from_taking_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of a run is made while another run looks for orphans."""
    monkeypatch.setenv("ARTOS_SHM", str(tmp_path))
    flock, looked = fcntl.flock, []

    def looked_at_first(descriptor: int, how: int) -> None:
        if how & fcntl.LOCK_EX and not looked:
            looked.append(os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY))
            flock(looked[0], fcntl.LOCK_SH)
        elif how & fcntl.LOCK_EX:
            os.close(looked.pop())
            monkeypatch.setattr(fcntl, "flock", flock)
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", looked_at_first)
    folder = ShmFolder.create("run")
    try:
        assert is_held(folder.path / "owner")
    finally:
        folder.remove()


def test_a_look_without_end_is_taken_for_a_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("artos.system.locks._CHECK_SECONDS", 0.0)
    path = tmp_path / "lock"
    with path.open("wb") as looks:
        fcntl.flock(looks, fcntl.LOCK_SH)
        assert FileLock.take(path) is None


@pytest.mark.processes
def test_who_inherits_it_holds_it_too(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with taken(path) as lock:
        heir = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock.fileno()]
        )
    with heir:
        assert is_held(path)
        heir.communicate(b"\n", PATIENCE)
    assert not is_held(path)


def test_a_control_waits_for_another_one_no_longer_than_it_may(tmp_path: Path) -> None:
    address_file(tmp_path).write_text("{}")
    with taken(address_file(tmp_path)), pytest.raises(DeadlineExceeded, match="another `artos"):
        scale(tmp_path, 2, seconds=0.0)
