"""A sweep on a cluster: what was submitted once is awaited, also by the next client."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from helpers import PATIENCE

import artos
from artos.errors import DeadlineExceeded, NoHead, Refused
from artos.protocol.views import RunView
from deploy.api import sweep_on_cluster
from deploy.api.running import Result, RunFailed
from deploy.api.sweeping import Sweep


class There:
    """A cluster that keeps its runs, each in the state that a test gives it."""

    def __init__(self) -> None:
        self.runs: dict[str, tuple[str, str]] = {}
        self.begins = ("done", "done")
        """The state and the outcome of runs that are submitted."""
        self.stopped: list[str] = []
        self.copied = True
        self.away = False

    def submit(self, workload: str, *, run_dir: str, **settings: Any) -> str:
        self.runs[run_dir] = self.begins
        if self.away:
            raise DeadlineExceeded("the head", 15.0)  # it may have done what was asked
        return run_dir

    def list(self) -> tuple[RunView, ...]:
        return tuple(
            RunView(name=name, state=state, outcome=outcome)
            for name, (state, outcome) in self.runs.items()
        )

    def over(self, run: str) -> bool:
        if self.away:
            raise DeadlineExceeded("the head", 15.0)
        return self.runs[run][0] in ("done", "failed")

    def stop(self, run: str) -> None:
        self.stopped.append(run)

    def wait(self, run: str) -> Result:
        outcome = self.runs[run][1]
        if outcome == "failed":
            raise RunFailed(Path("/there"), "NotFinite")
        return Result(Path("/there"), {"outcome": outcome, "mean_return_100": 7.0, "steps": 9})

    def get(self, run: str, place: Path) -> None:
        place.mkdir(exist_ok=True)
        (place / ".copy-of").write_text(run)
        summary = {"outcome": self.runs[run][1], "mean_return_100": 7.0, "steps": 9}
        (place / "summary.json").write_text(json.dumps(summary))  # first, others may come later
        if not self.copied:
            raise DeadlineExceeded("the head", 15.0)
        (place / "whole").touch()


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> There:
    monkeypatch.setattr(sweep_on_cluster, "_LOOK", 0.01)
    return There()


def swept(folder: Path, there: There, **more: Any) -> Sweep:
    return artos.sweep("ppo", seeds=3, folder=folder, cluster=there, gamma=0.9, **more)  # type: ignore[arg-type]


def notes(folder: Path) -> list[Path]:
    return [*folder.glob(".*.submitted")]


def test_runs_of_a_head_that_was_away_are_awaited_and_not_repeated(
    there: There, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there.begins = ("running", "")

    def over(run: str) -> bool:
        there.away = len(there.runs) == 3
        return There.over(there, run)

    with monkeypatch.context() as patch:
        patch.setattr(there, "over", over)
        with pytest.raises(DeadlineExceeded):
            swept(tmp_path / "s", there)
    begun = dict(there.runs)
    assert len(begun) == 3
    assert there.stopped == [], "they go on there"
    there.begins, there.away = ("done", "done"), False
    there.runs = dict.fromkeys(there.runs, ("done", "done"))
    found = swept(tmp_path / "s", there)
    assert [run.outcome for run in found.runs] == ["done"] * 3
    assert begun.keys() <= there.runs.keys()
    assert len(there.runs) == 3
    assert all((Path(run.folder) / "whole").exists() for run in found.runs)
    assert notes(tmp_path / "s") == []
    swept(tmp_path / "s", there)
    assert len(there.runs) == 3


def test_a_run_is_noted_before_it_is_submitted(
    there: There, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is killed while it submits has noted it."""
    noted: list[str] = []
    submit = there.submit

    def look(workload: str, *, run_dir: str, **settings: Any) -> str:
        noted.extend(note.read_text() for note in notes(tmp_path / "s"))
        return submit(workload, run_dir=run_dir, **settings)

    monkeypatch.setattr(there, "submit", look)
    swept(tmp_path / "s", there)
    assert there.runs.keys() <= set(noted)


def test_runs_that_were_not_copied_are_copied_the_next_time(there: There, tmp_path: Path) -> None:
    there.copied = False
    assert all("not copied" in run.why for run in swept(tmp_path / "s", there).runs)
    there.copied = True
    found = swept(tmp_path / "s", there)
    assert [(run.outcome, run.why) for run in found.runs] == [("done", "")] * 3
    assert all((Path(run.folder) / "whole").exists() for run in found.runs), "in the same folder"
    assert len(there.runs) == 3


def test_what_is_in_the_place_of_the_copy_goes_beside_it(there: There, tmp_path: Path) -> None:
    there.copied = False
    swept(tmp_path / "s", there)
    there.copied = True
    (tmp_path / "s" / "seed1" / ".copy-of").write_text("another")
    swept(tmp_path / "s", there)
    assert (tmp_path / "s" / "seed1.1" / ".copy-of").read_text() == "another"
    assert (tmp_path / "s" / "seed1" / "whole").exists()
    assert len(there.runs) == 3


@pytest.mark.parametrize("end", [("failed", "failed"), ("done", "interrupted")])
def test_runs_that_are_not_done_are_submitted_again(
    end: tuple[str, str], there: There, tmp_path: Path
) -> None:
    there.begins, there.away = ("running", ""), True
    with pytest.raises(DeadlineExceeded):
        swept(tmp_path / "s", there)
    begun, there.away, there.begins = len(there.runs), False, ("done", "done")
    there.runs = dict.fromkeys(there.runs, end)
    assert [run.outcome for run in swept(tmp_path / "s", there).runs] == ["done"] * 3
    assert len(there.runs) == begun + 3


def test_a_head_that_does_not_know_them_gets_them(there: There, tmp_path: Path) -> None:
    there.begins, there.away = ("running", ""), True
    with pytest.raises(DeadlineExceeded):
        swept(tmp_path / "s", there)
    assert len(swept(tmp_path / "s", another := There()).runs) == len(another.runs) == 3


def test_a_sweep_that_is_stopped_stops_its_runs(
    there: There, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there.begins = ("running", "")

    def interrupted(*_: Any, **__: Any) -> None:
        end = time.monotonic() + PATIENCE
        while len(there.runs) < 3 and time.monotonic() < end:
            time.sleep(0.005)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("deploy.api.sweeping.wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            swept(tmp_path / "s", there)
    assert len(there.stopped) == len(there.runs) == 3
    there.begins = ("done", "done")
    swept(tmp_path / "s", there)
    assert len(there.runs) == len(there.stopped) + 3


def test_a_folder_that_was_emptied_is_free_for_another_sweep(there: There, tmp_path: Path) -> None:
    there.copied = False
    swept(tmp_path / "s", there)
    for path in (tmp_path / "s").glob("[!.]*"):  # as `rm -r s/*`
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert notes(tmp_path / "s")
    there.copied = True
    artos.sweep("dqn", seeds=3, folder=tmp_path / "s", cluster=there)  # type: ignore[arg-type]
    assert len(there.runs) == 6


@pytest.mark.parametrize("fault", [Refused(["unknown setting"]), NoHead("tcp://1:1", "nobody")])
def test_of_a_sweep_that_no_head_has_taken_nothing_is_left(
    fault: Exception, there: There, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(there, "submit", lambda *_, **__: raised(fault))
    with pytest.raises(type(fault)):
        swept(tmp_path / "s", there)
    assert not (tmp_path / "s").exists()


def raised(error: BaseException) -> Any:
    raise error
