"""SIGKILL of members and of the supervisor at random moments: exact books, nothing left behind."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from helpers import PATIENCE
from named import LEARNER, acting
from real_runs import Artos, assert_each_row_once, book_of, journal, shared_memory, updates

from artos.specs.members import Member
from head.records.episodes import Episodes
from head.records.progress_log import last_status

pytestmark = [pytest.mark.processes, pytest.mark.long]

Start = Callable[..., Artos]
KILLS = 20
STEPS = 36_000
"""More than are taken, slowly, while all these are killed."""
ACTORS = acting(0, 1)


def claimed_and_done(run: Path) -> list[list[int]]:
    """Claims of learner firings that the journal reports done, in the order they were finished."""
    lines = journal(run)
    claims = {line["firing"]: line["claims"] for line in lines if "claims" in line}
    return [c for line in lines if line.get("by") == "learner" for c in claims[line["done"]]]


def kill(artos: Artos, member: Member, chance: random.Random) -> bool:
    """SIGKILL a member at a random moment; False if it was just not there."""
    time.sleep(chance.uniform(0.0, 1.2))
    process = artos.member(member)
    if process is None:
        return False
    process.kill()
    return True


def kill_supervisor(artos: Artos, chance: random.Random) -> None:
    """SIGKILL it at a random moment; its members end, too."""
    time.sleep(chance.uniform(0.0, 2.5))
    artos.children()
    artos.signal(signal.SIGKILL)
    artos.wait()
    _, alive = psutil.wait_procs(artos.survivors(), timeout=PATIENCE)
    assert not alive


def test_members_killed_at_random_moments(start: Start, home: Path) -> None:
    slow, run, chance = home / "slow", home / "run", random.Random(11)
    slow.touch()
    artos = start("run", "counting.py:workload", "--run-dir", run, "--total-steps", STEPS, "--json")
    artos.until(lambda: artos.member(LEARNER))
    kills: dict[object, int] = {LEARNER: 0, "actors": 0}
    while min(kills.values()) < KILLS:
        assert artos.process.poll() is None, artos.wait()
        kills[LEARNER] += kill(artos, LEARNER, chance)
        kills["actors"] += kill(artos, chance.choice(ACTORS), chance)
    slow.unlink()
    outcome = artos.wait()
    assert outcome.status == 0, outcome.err
    summary = outcome.summary
    assert summary["steps"] == STEPS
    assert summary["rows_lost"] == 0
    assert summary["restarts"] == sum(kills.values())
    assert summary["updates"] == STEPS // 32
    assert_each_row_once(run, STEPS)
    done = claimed_and_done(run)
    assert sorted(done) == [[a, s, s + 16] for a in (0, 1) for s in range(0, STEPS // 2, 16)]
    assert not artos.survivors()
    assert not shared_memory()


def new_or_resumed(run: Path, workload: str = "counting.py:workload") -> tuple[object, ...]:
    """Arguments that go on with a run where it saved anything, and else start it anew."""
    if (run / "checkpoint" / "manifest.json").exists():
        return "--resume", run
    if run.exists():
        shutil.rmtree(run)
    return workload, "--run-dir", run


def test_supervisor_killed_at_random_moments(start: Start, home: Path) -> None:
    slow, run, chance = home / "slow", home / "run", random.Random(12)
    slow.touch()
    for number in range(KILLS):
        before = updates(run)
        artos = start("run", *new_or_resumed(run), "--total-steps", 32000, "--json")
        if number % 4 == 3:  # the others hit registration and start-up
            artos.until(lambda: updates(run) > before)  # noqa: B023
        kill_supervisor(artos, chance)
    slow.unlink()
    outcome = start("run", *new_or_resumed(run), "--total-steps", 16000, "--json").wait()
    assert outcome.status == 0, outcome.err
    assert outcome.summary["steps"] == 16000
    assert outcome.summary["updates"] == 16000 // 32
    assert outcome.summary["not_restored"]
    assert len(book_of(run)) == 16000
    assert not shared_memory()


@pytest.mark.parametrize("workload", ["ppo", "appo"])
def test_episodes_are_counted_once_however_often_a_run_is_killed(
    workload: str, start: Start, home: Path
) -> None:
    """The summary, the last row and the list of episodes agree; some were played again."""
    run, chance = home / "run", random.Random(13)
    settings = ("--set", "steps=32", "--set", "hidden=16", "--json")
    for _ in range(6):
        before = updates(run)
        artos = start("run", *new_or_resumed(run, workload), "--total-steps", 10**7, *settings)
        artos.until(lambda: updates(run) > before)  # noqa: B023
        kill_supervisor(artos, chance)
    artos = start("run", *new_or_resumed(run, workload), "--total-steps", 10**7, *settings)
    before = updates(run)
    artos.until(lambda: updates(run) > before)
    artos.signal(signal.SIGTERM)
    counted = artos.wait().summary["episodes"]
    assert counted == len(Episodes.read(run / "episodes.csv")) > 0
    last = last_status(run / "progress.csv")
    assert last is not None
    assert last.episodes == counted
