"""Runs whose members are processes, and that save all: what each held is there again."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from books import shown_to
from drawing import drawn_by
from helpers import PATIENCE, ROOT, SUPPORT
from real_runs import Artos, Outcome, book_of, shared_memory, updates

from artos.runs.checkpoint import Manifest, read_manifest
from deploy.cli.__main__ import main

pytestmark = pytest.mark.processes

RUN = ("run", "drawing.py:workload", "--run-dir", "run", "--set", "checkpoint=all", "--json")


@pytest.fixture(autouse=True)
def _workload(home: Path) -> None:
    shutil.copy(SUPPORT / "drawing.py", home)


def stopped(start: Callable[..., Artos], home: Path, *settings: object) -> Manifest:
    """A run that was stopped on its way."""
    (home / "slow").touch()
    running = start(*RUN, "--total-steps", 1_000_000, *settings)
    running.until(lambda: updates(home / "run") > 10)
    running.signal(signal.SIGINT)
    ended = running.wait()
    assert ended.status == 130, ended.err
    assert not shared_memory()
    (home / "slow").unlink()
    return read_manifest(home / "run" / "checkpoint")


def resumed(artos: Callable[..., Outcome], before: Manifest) -> Outcome:
    """It went on for some updates more."""
    again = artos("run", "--resume", "run", "--json", "--total-steps", before.steps + 320)
    assert again.status == 0, again.err
    assert not shared_memory()
    return again


@pytest.mark.long
def test_episodes_and_random_streams_go_on(
    start: Callable[..., Artos], artos: Callable[..., Outcome], home: Path
) -> None:
    """Also where a run that had ended is extended."""
    before = stopped(start, home)
    assert before.states
    assert before.not_restored == ()
    assert any(row % 50 for row in before.rows), "it was in mid-episode"
    again = resumed(artos, before)
    assert f"resumed at step {before.steps}; everything is restored" in again.err
    again = resumed(artos, read_manifest(home / "run" / "checkpoint"))
    assert "everything is restored" in again.err
    assert again.summary["restarts"] == again.summary["rows_lost"] == 0
    for actor in (0, 1):
        identity, shown = shown_to(home / "run", actor)
        assert len(set(identity)) == 1
        # An episode of 50 steps shows 51 observations, the last of which is in no row.
        drawn = drawn_by(identity[0], 2 * len(shown))
        first = [at for at in range(len(drawn)) if (at + 1) % 51][: len(shown)]
        assert shown == [drawn[at] for at in first]


@pytest.mark.long
def test_a_killed_run_goes_on_without_what_members_held(
    start: Callable[..., Artos], artos: Callable[..., Outcome], home: Path
) -> None:
    """Its last checkpoint has other weights than those that the saved states belong to."""
    before = stopped(start, home)
    (home / "slow").touch()
    running = start("run", "--resume", "run", "--total-steps", 1_000_000)
    folder = home / "run" / "checkpoint"
    running.until(lambda: read_manifest(folder).version > before.version)
    running.signal(signal.SIGKILL)
    running.process.wait(PATIENCE)
    (home / "slow").unlink()
    killed = read_manifest(folder)
    assert not killed.states
    again = resumed(artos, killed)
    assert "what members held: checkpoint=all saves that when a run ends" in again.err
    assert "every environment starts a new episode" in again.err
    book = book_of(home / "run")
    assert len(book) == again.summary["steps"]
    _, step, identity, _ = book[book[:, 0] == 0].T
    assert len(set(identity.tolist())) == 2
    (new,) = np.flatnonzero(np.diff(step) != 1) + 1
    assert step[new] == 0, "blocks are new"
    assert identity[new] != identity[new - 1]


def test_what_cannot_be_pickled_is_named_and_begins_anew(
    start: Callable[..., Artos], artos: Callable[..., Outcome], home: Path
) -> None:
    before = stopped(start, home, "--set", "kind=held")
    reasons = [each.partition(": ") for each in before.not_restored]
    assert [who for who, _, _ in reasons] == ["actor 0 starts again", "actor 1 starts again"]
    assert all("pickle" in why for _, _, why in reasons)
    again = resumed(artos, before)
    assert "actor 1 starts again: TypeError: cannot pickle" in again.err
    for actor in (0, 1):
        identity, _ = shown_to(home / "run", actor)
        assert len(set(identity)) == 2


@pytest.mark.long
def test_who_takes_too_long_to_say_what_it_holds_begins_anew(
    artos: Callable[..., Outcome], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("head.run.supervisor.HAND_OVER_SECONDS", 1.0)
    monkeypatch.chdir(home)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert main([*RUN, "--total-steps", "320", "--set", "kind=endless"]) == 0
    before = read_manifest(home / "run" / "checkpoint")
    assert before.not_restored == (
        "actor 0 starts again: it did not say what it held before its process ended",
        "actor 1 starts again: it did not say what it held before its process ended",
    )
    resumed(artos, before)
    assert [len(set(shown_to(home / "run", actor)[0])) for actor in (0, 1)] == [2, 2]


def test_other_settings_are_refused_before_anything_starts(
    start: Callable[..., Artos], artos: Callable[..., Outcome], home: Path
) -> None:
    before = stopped(start, home)
    other = artos("run", "--resume", "run", "--seed", "9", "--inline", "--total-steps", "1000000")
    assert other.status == 2
    assert "--seed 9: the run has 1" in other.err
    assert "--inline: the run has processes" in other.err
    refused = artos("run", "--resume", "run", "--set", "actors=1")
    assert refused.status == 2
    assert "what its members held does not fit other actors" in refused.err
    assert read_manifest(home / "run" / "checkpoint") == before


@pytest.mark.long
def test_other_code_is_refused_and_the_run_stays_as_it_was(
    start: Callable[..., Artos], artos: Callable[..., Outcome], home: Path
) -> None:
    """Members find that out, in the end before any of them has done anything."""
    before = stopped(start, home)
    code = (home / "drawing.py").read_text()
    (home / "drawing.py").write_text(code.replace("Drawer", "Renamed"))
    again = ("run", "--resume", "run", "--total-steps", before.steps + 320)
    refused = artos(*again)
    assert refused.status == 1
    assert "its states are not those of this code" in refused.err
    assert "--set checkpoint=model" in refused.err
    assert read_manifest(home / "run" / "checkpoint") == before
    (home / "drawing.py").write_text(code)
    assert "everything is restored" in resumed(artos, before).err
    for actor in (0, 1):
        assert len(set(shown_to(home / "run", actor)[0])) == 1
