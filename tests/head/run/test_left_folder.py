"""A run that goes on waits until an earlier process of it has left its folder."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from artos.errors import RunExists
from artos.runs.checkpoint import MANIFEST, SAVED
from head.records import run_lock
from head.run import __main__ as process


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a run that can be resumed."""
    run = tmp_path / "run"
    (run / SAVED).mkdir(parents=True)
    (run / SAVED / MANIFEST).write_text("{}")
    (run / "config.json").write_text('{"workload": "ppo", "settings": {}, "folder": "/code"}')
    monkeypatch.setattr(process, "_LOOK_SECONDS", 0.01)
    return run


def test_it_goes_on_once_the_other_has_left(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    lock = run_lock.take(folder)
    leaves = threading.Timer(0.2, lock.close)
    leaves.start()
    with process.left_folder(folder) as resumed:
        assert resumed.path == folder
    leaves.join()
    assert caplog.text.count("still has its folder") == 1


def test_it_does_not_wait_for_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_LEAVE_SECONDS", 0.05)
    lock = run_lock.take(folder)
    with pytest.raises(RunExists):
        process.left_folder(folder)
    lock.close()
