"""By which files the process of a failed restore is known: only by those that no other has."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workers.checkpoint.criu import tasks
from workers.checkpoint.criu.tasks import RestoreTask


def test_a_file_that_siblings_have_as_well_is_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "Worker", lambda *_: SimpleNamespace(pid=os.getpid()))
    image: Any = SimpleNamespace(folder=tmp_path, next_name=lambda *_: "restore-1.log")
    with (tmp_path / "turn").open("wb") as turn, (tmp_path / "log").open("ab") as log:
        given = {"/turn": turn.fileno(), "/log": log.fileno()}
        task = RestoreTask(image, given, {"/log"})
        task.start([])
        (trace,) = task._traces.files
        assert trace[1] == os.fstat(turn.fileno()).st_ino
