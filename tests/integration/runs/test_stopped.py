"""SIGSTOP for longer than the deadline, then SIGCONT: of members, and of the whole run."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from named import LEARNER, acting
from real_runs import Artos, assert_each_row_once, journal, shared_memory, updates

pytestmark = [pytest.mark.processes, pytest.mark.long]

DEADLINE = 5.0
STEPS = 6400


def test_whoever_stops_for_too_long(start: Callable[..., Artos], home: Path) -> None:
    """A member is replaced, and what it wakes up to is its end; a run as a whole just goes on."""
    run = home / "run"
    (home / "slow").touch()
    arguments = ("--run-dir", run, "--total-steps", STEPS, "--deadline", DEADLINE, "--json")
    artos = start("run", "counting.py:workload", *arguments)
    for each in (LEARNER, *acting(0)):
        name = str(each)
        artos.until(lambda: updates(run) and artos.member(each))  # noqa: B023
        member = artos.member(each)
        assert member is not None
        member.suspend()
        artos.until(lambda: deaths(run).get(name))  # noqa: B023
        assert "no answer to" in deaths(run)[name]
        artos.until(lambda: not member.is_running())  # noqa: B023
        before = updates(run)
        artos.until(lambda: updates(run) > before)  # noqa: B023
    everybody = [psutil.Process(artos.process.pid), *artos.children()]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for process in everybody:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        if number == signal.SIGSTOP:
            time.sleep(1.5 * DEADLINE)
    (home / "slow").unlink()
    outcome = artos.wait()
    assert outcome.status == 0, outcome.err
    assert outcome.summary["restarts"] >= 2
    assert outcome.summary["rows_lost"] == 0
    assert_each_row_once(run, STEPS)
    assert not shared_memory()


def deaths(run: Path) -> dict[str, str]:
    """Why, by member."""
    return {line["died"]: line["why"] for line in journal(run) if "died" in line}
