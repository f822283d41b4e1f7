"""Whose a run is: one process at a time, and anybody may look without disturbing it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from records_writer import Start

from artos.errors import RunExists
from head.records.run_folder import RunFolder
from head.records.run_lock import FILE, is_live, owner, take


def test_nobody_has_a_folder_without_a_run(tmp_path: Path) -> None:
    assert (is_live(tmp_path), owner(tmp_path)) == (False, None)
    assert (is_live(tmp_path / "nowhere"), owner(tmp_path / "nowhere")) == (False, None)


def test_who_has_it_is_known_until_it_is_closed(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", {}) as folder:
        assert (is_live(folder.path), owner(folder.path)) == (True, os.getpid())
        assert is_live(folder.path)  # whoever looks takes nothing away
        with pytest.raises(RunExists):
            take(folder.path)
    assert (is_live(folder.path), owner(folder.path)) == (False, None)


@pytest.mark.processes
def test_another_process_has_it_and_dies(tmp_path: Path, start: Start) -> None:
    run = tmp_path / "run"
    holder = start("hold", run)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert (is_live(run), owner(run)) == (True, holder.pid)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (is_live(run), owner(run)) == (False, None)


def test_a_number_that_is_another_process_by_now_owns_nothing(tmp_path: Path) -> None:
    """Else whoever stops the run would stop that one."""
    with RunFolder.create(tmp_path / "run", {}) as folder:
        (folder.path / FILE).write_text(str(os.getppid()))
        assert (is_live(folder.path), owner(folder.path)) == (True, None)
        (folder.path / FILE).write_text("nobody")
        assert owner(folder.path) is None


def test_a_look_does_not_keep_a_run_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody looks in the very moment in which it is taken."""
    import fcntl  # noqa: PLC0415

    flock, tries = fcntl.flock, []

    def looked_at_first(lock: int, how: int) -> None:
        if how & fcntl.LOCK_EX and not tries:
            tries.append(lock)
            raise BlockingIOError
        flock(lock, how)

    monkeypatch.setattr(fcntl, "flock", looked_at_first)
    with RunFolder.create(tmp_path / "run", {}) as folder:
        assert is_live(folder.path)
    assert tries
