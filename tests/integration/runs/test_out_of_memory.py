"""Memory runs out in the control group of a run: whoever the kernel kills, no row is lost."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
from control_groups import memory_group
from helpers import PATIENCE
from real_runs import Artos, book_of, journal, shared_memory, updates

pytestmark = [pytest.mark.processes, pytest.mark.long]

Start = Callable[..., Artos]
STEPS = 3200


def test_whoever_is_killed_for_memory_the_run_goes_on(start: Start, home: Path) -> None:
    run = home / "run"
    (home / "slow").touch()
    with memory_group(400) as group:
        arguments = ("run", "hungry.py:workload", "--run-dir", run, "--total-steps", STEPS)
        artos = start(*arguments, within=group.command)
        for who in ("actor", "learner"):
            (home / f"eat-{who}").touch()
            artos.until(lambda: any(who in line.get("died", "") for line in journal(run)))  # noqa: B023
            (why,) = [line["why"] for line in journal(run) if who in line.get("died", "")]
            assert "memory ran out: use fewer actors or smaller batches" in why
            done = updates(run)
            artos.until(lambda: updates(run) > done)  # noqa: B023
        artos.until((run / "checkpoint" / "manifest.json").exists)
        artos.children()
        (home / "eat-supervisor").touch()
        assert artos.wait().status == -signal.SIGKILL
        _, alive = psutil.wait_procs(artos.survivors(), timeout=PATIENCE)
        assert not alive
        assert group.kills == 3
        (home / "slow").unlink()
        outcome = start("run", "--resume", run, "--json", within=group.command).wait()
        assert (outcome.status, group.kills) == (0, 3), outcome.err
    assert outcome.summary["steps"] == STEPS
    book = book_of(run)
    assert len(book) == len(np.unique(book[:, 2:], axis=0)) == STEPS, "a row was learned from twice"
    assert not shared_memory()


def test_a_run_for_which_there_is_not_enough_is_refused(start: Start, home: Path) -> None:
    """Its shared memory counts; the kernel would kill the supervisor, without a word."""
    with memory_group(100) as group:
        artos = start("run", "hungry.py:workload", "--set", "steps=2000000", within=group.command)
        outcome = artos.wait()
        assert group.kills == 0
    assert outcome.status == 2, outcome.err
    assert "the memory limit of the control group" in outcome.err
    assert "use fewer actors, envs or steps, or raise the limit" in outcome.err
    assert not (home / "runs").exists()
    assert not shared_memory()
