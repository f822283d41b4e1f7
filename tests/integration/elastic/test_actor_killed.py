"""An actor SIGKILLed while it waits, is being checkpointed, or is being restored."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from elastic import needs_criu
from elastic_runs import ElasticRun, assert_exact, assert_nothing_left
from frozen import is_frozen
from real_runs import journal

pytestmark = [pytest.mark.processes, needs_criu, pytest.mark.long]

Start = Callable[..., ElasticRun]
STEPS = 2 * 16 * 8


def assert_lives(run: ElasticRun, steps: int = STEPS) -> None:
    """Actor 0 has a life more with every death, actor 1 just one; the run is as it should be."""
    run.done()
    lives = assert_exact(run.folder, steps)
    assert [len(lives[actor]) for actor in (0, 1)] == [1 + len(died(run)) + anew(run), 1]
    assert_nothing_left(run.home)


def anew(run: ElasticRun) -> int:
    """How often actor 0 was started anew because no process came of its image."""
    return run.said.count("actor 0 is started again")


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
    assert_lives(run)
    assert died(run) == ["actor 0"]


def test_while_it_is_checkpointed(start: Start, home: Path) -> None:
    run = start("counted.py:workload", "--total-steps", 6 * STEPS, park="checkpoint")
    run.until(lambda: run.updates > 1)

    def kill_below_a_dump() -> bool:
        for process in run.actors().get(0, []):
            with suppress(psutil.NoSuchProcess):
                if process.status() == psutil.STATUS_TRACING_STOP:  # seized by CRIU
                    process.kill()
        return bool(died(run))  # else it was just written to the end: it has its image

    run.each_moment(kill_below_a_dump)
    assert_lives(run, 6 * STEPS)
    assert died(run)


def test_while_it_is_restored(start: Start, home: Path) -> None:
    run = start("counted.py:workload", "--total-steps", 6 * STEPS, park="checkpoint")
    run.until(lambda: run.updates > 1)

    def kill_half_restored() -> bool:
        for process in run.half_restored("actor-0"):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return anew(run) > 0  # else it was whole already, and died as a running one

    run.each_moment(kill_half_restored)
    assert_lives(run, 6 * STEPS)
    assert anew(run)
