"""Runs that were resumed with all that their members held come out bit for bit once more."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from named import LEARNER, acting
from real_runs import TINY, Artos, updates

from artos.runs.checkpoint import read_manifest
from artos.runs.tape import tapes
from artos.specs.members import Member
from deploy.replay.opening import replayed

pytestmark = [pytest.mark.processes, pytest.mark.long]

Start = Callable[..., Artos]
ALL = ("--env", "CartPole-v1", "--actors", 2, "--set", "checkpoint=all")
REPLAY = ("--set", "after=64", "--set", "batch=32", "--set", "hidden=16")
WORDS: dict[str, tuple[object, ...]] = {
    "ppo": ("ppo", *ALL, *TINY, "--set", "max_lag=1"),
    "dqn": ("dqn", *ALL, *REPLAY, "--set", "replay=prioritised"),
    "recurrent": (
        "ppo", *ALL, *TINY, "--set", "max_lag=1", "--set", "recurrent=true", "--set", "memory=8",
        "--set", "inference=central",
    ),
}  # fmt: skip


@pytest.fixture
def run(home: Path) -> Path:
    return home / "run"


def ended(
    start: Start, run: Path, how: signal.Signals, *words: object, killed: Member | None = None
) -> None:
    """End a run on its way, or one that goes on, after one of its members was killed."""
    before, version, processes = done(run), saved(run), len(tapes(run, "learner"))
    again = ("--run-dir", run, *words) if words else ("--resume", run)
    artos = start("run", *again, "--total-steps", 2_000_000)
    artos.until(lambda: done(run) > before + 8 and saved(run) > version)
    if killed is not None:
        artos.kill(killed)
        now = done(run)
        artos.until(lambda: done(run) > now + 8)
        assert len(tapes(run, "learner")) == processes + 1 + (killed == LEARNER)
    artos.signal(how)
    artos.wait()


def done(run: Path) -> int:
    """Its updates so far."""
    return updates(run) if (run / "journal.jsonl").exists() else 0


def saved(run: Path) -> int:
    """The version of its checkpoint; -1: there is none."""
    there = (run / "checkpoint" / "manifest.json").exists()
    return read_manifest(run / "checkpoint").version if there else -1


def finished(start: Start, run: Path) -> None:
    """Have it go on for a while, to its end."""
    steps = read_manifest(run / "checkpoint").steps + 320
    outcome = start("run", "--resume", run, "--total-steps", steps, "--json").wait()
    assert outcome.status == 0, outcome.err


def assert_exact(run: Path, *went_on: bool) -> None:
    """And each of its continuations went on with what its members held, or did not."""
    parts = json.loads((run / "config.json").read_text())["resumed"]
    held = [tuple(Member(*each) for each in part["holding"]) for part in parts]
    members = {LEARNER, *acting(0, 1)}
    assert [members.issubset(each) for each in held] == [*went_on]
    found = replayed(run)
    assert (found.first_difference, found.ended) == (None, "")
    assert found.versions > 16


@pytest.mark.parametrize(
    "name",
    [
        "recurrent",
        *(
            pytest.param(name, marks=pytest.mark.exhaustive)
            for name in WORDS
            if name != "recurrent"
        ),
    ],
)
def test_a_run_that_was_stopped_and_resumed_twice(start: Start, run: Path, name: str) -> None:
    """Also with a member killed after it had gone on: that one begins anew."""
    ended(start, run, signal.SIGTERM, *WORDS[name])
    killed = LEARNER if name == "dqn" else acting(0)[0]
    ended(start, run, signal.SIGTERM, killed=killed)
    finished(start, run)
    assert_exact(run, True, True)


@pytest.mark.parametrize("name", [pytest.param("ppo", marks=pytest.mark.exhaustive), "dqn"])
def test_a_run_that_was_killed_whole_goes_on_without_what_members_held(
    start: Start, run: Path, name: str
) -> None:
    ended(start, run, signal.SIGKILL, *WORDS[name])
    ended(start, run, signal.SIGTERM)
    ended(start, run, signal.SIGKILL)
    finished(start, run)
    assert_exact(run, False, True, False)


def test_a_run_that_was_killed_before_it_had_saved_anything_more(start: Start, run: Path) -> None:
    """It went on twice from the same moment; what came between was lost, and is repeated, too."""
    ended(start, run, signal.SIGTERM, *WORDS["ppo"])
    shutil.copytree(run / "checkpoint", run / "saved")
    ended(start, run, signal.SIGKILL)
    shutil.rmtree(run / "checkpoint")
    (run / "saved").rename(run / "checkpoint")
    finished(start, run)
    assert_exact(run, True, True)
