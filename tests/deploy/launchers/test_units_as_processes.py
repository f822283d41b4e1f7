"""Units that are processes of this machine are found by what they are, whatever their notes say."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from helpers import PATIENCE

from deploy.launchers import processes
from deploy.launchers.cluster import HEAD, Cluster

pytestmark = [
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # they live on
]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster whose head only waits; its module is found in the folder that it works in."""
    lab = Cluster(
        name="lab", engine="ssh", folder=str(tmp_path / "lab"), least=1, most=1,
        python=sys.executable,
    )  # fmt: skip
    lab.save()
    package = lab.path / "deploy" / "launchers"
    package.mkdir(parents=True)
    for place in (package.parent, package):
        (place / "__init__.py").touch()
    (package / "unit.py").write_text("import signal\nsignal.pause()\n")
    before = {*psutil.Process().children()}
    yield lab
    for process in {*psutil.Process().children()} - before:
        process.kill()
        process.wait(PATIENCE)


def heads(lab: Cluster) -> list[psutil.Process]:
    """Those that live, found without a note."""
    mine = [p for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE]
    return [process for process in mine if process.cwd() == lab.folder]


def test_a_head_is_found_and_ended_although_the_clock_was_set(
    lab: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a process began is reckoned from the clock of now: it changes with that."""
    processes.start(lab, HEAD)
    began = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: began(self) + 3_600.0)
    processes.start(lab, HEAD)
    (head,) = heads(lab)
    (unit,) = processes.found(lab, HEAD)
    assert unit.id == str(head.pid)
    processes.stop(unit, now=True)
    head.wait(PATIENCE)
    assert [*processes.found(lab, HEAD)] == []


def test_a_head_of_which_nothing_could_be_noted_is_ended(
    lab: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would find it again."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(processes, "write_durably", full)
    with pytest.raises(OSError, match="no space left"):
        processes.start(lab, HEAD)
    assert heads(lab) == []


@pytest.mark.parametrize("note", ["", "x y", "-1", f"{10**30}", "this process", "\0", "0"])
def test_a_note_that_is_damaged_or_old_names_no_process(lab: Cluster, note: str) -> None:
    lab.note(HEAD, "pid").write_text(note.replace("this process", f"{os.getpid()}"))
    assert [*processes.found(lab, HEAD)] == []


def test_a_head_is_found_that_an_earlier_version_has_started(lab: Cluster) -> None:
    """It noted when that began, too."""
    processes.start(lab, HEAD)
    note = lab.note(HEAD, "pid")
    note.write_text(f"{note.read_text()} 1700000000.5")
    assert [unit.id for unit in processes.found(lab, HEAD)] == [str(heads(lab)[0].pid)]


def test_one_that_has_ended_is_not_there_though_nobody_has_reaped_it(lab: Cluster) -> None:
    processes.start(lab, HEAD)
    (head,) = heads(lab)
    head.kill()
    os.waitid(os.P_PID, head.pid, os.WEXITED | os.WNOWAIT)
    assert [*processes.found(lab, HEAD)] == []
