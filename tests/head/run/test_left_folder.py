"""A run that goes on waits until an earlier process of it has left its folder."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from artos.errors import RunExists
from artos.runs.checkpoint import MANIFEST, SAVED
from head.records import run_lock
from head.records.run_folder import RunFolder
from head.run import __main__ as process
from triggers.journal import Journal


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
    resumed = process.left_folder(folder)
    assert resumed is not None
    with resumed:
        assert resumed.path == folder
    leaves.join()
    assert caplog.text.count("still has its folder") == 1


def test_what_saved_nothing_begins_anew_without_the_records_of_before(folder: Path) -> None:
    """Which that process writes until it has left."""
    (folder / SAVED / MANIFEST).unlink()
    lock = run_lock.take(folder)

    def leave() -> None:
        (folder / "progress.csv").touch()
        with closing(Journal(folder / "journal.jsonl", most=1)) as journal:
            for number in range(4):
                journal.write({"n": number})
                journal.flush()
        lock.close()

    leaves = threading.Timer(0.2, leave)
    leaves.start()
    assert process.left_folder(folder) is None
    leaves.join()
    assert {path.name for path in folder.iterdir()} == {SAVED, "run.lock"}
    with RunFolder.create(folder, {}):
        pass


def test_it_does_not_wait_for_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_LEAVE_SECONDS", 0.05)
    lock = run_lock.take(folder)
    with pytest.raises(RunExists):
        process.left_folder(folder)
    lock.close()
