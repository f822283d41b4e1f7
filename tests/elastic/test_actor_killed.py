"""An actor SIGKILLed while it waits, is being checkpointed, or is being restored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from elastic import needs_criu
from elastic_runs import ElasticRun, assert_exact, assert_nothing_left
from real_runs import journal

from workers.freezer import is_frozen

pytestmark = [pytest.mark.processes, needs_criu]

Start = Callable[..., ElasticRun]
STEPS = 2 * 16 * 8


def assert_second_life(run: ElasticRun) -> None:
    """Actor 0 has lived twice, actor 1 once, and the run is what it would have been."""
    run.done()
    lives = assert_exact(run.folder, STEPS)
    assert [len(lives[actor]) for actor in (0, 1)] == [2, 1]
    assert_nothing_left(run.home)


def died(run: ElasticRun) -> list[str]:
    return [line["died"] for line in journal(run.folder) if "died" in line]


@pytest.mark.parametrize("park", ["memory", "freeze"])
def test_while_it_waits(park: str, start: Start, home: Path) -> None:
    (home / "held").touch()  # so that after the first round nobody has anything to do
    run = start("counted.py:workload", "--total-steps", STEPS, park=park)
    run.until((home / "holding").exists)
    (process,) = run.actors()[0]
    run.until(lambda: is_frozen(process.pid) == (park == "freeze"))
    process.kill()
    run.until(lambda: died(run))  # noticed at once, not when it is needed
    run.until(lambda: run.actors().get(0, [process])[0] != process)
    (home / "held").unlink()
    assert_second_life(run)
    assert died(run) == ["actor 0"]


def test_while_it_is_checkpointed(start: Start, home: Path) -> None:
    run = start("counted.py:workload", "--total-steps", STEPS, park="checkpoint")
    run.until(lambda: run.updates > 1)
    killed = False

    def kill_below_a_dump() -> bool:
        nonlocal killed
        for process in run.actors().get(0, []):
            # Seized by CRIU.
            if process.status() == psutil.STATUS_TRACING_STOP:
                process.kill()
                killed = True
        return killed

    run.each_moment(kill_below_a_dump)
    assert killed
    assert_second_life(run)
    assert died(run) == ["actor 0"]


def test_while_it_is_restored(start: Start, home: Path) -> None:
    run = start("counted.py:workload", "--total-steps", STEPS, park="checkpoint")
    run.until(lambda: run.updates > 1)
    killed = False

    def kill_half_restored() -> bool:
        nonlocal killed
        for process in run.half_restored("actor-0"):
            process.kill()
            killed = True
        return killed

    run.each_moment(kill_half_restored)
    assert killed
    assert_second_life(run)
    assert "actor 0 is started anew" in run.said
