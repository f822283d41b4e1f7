"""The supervisor SIGKILLed while its actors are in every state: none survives, the run goes on."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from counted import LIFE
from elastic import needs_criu
from elastic_runs import (
    ElasticRun,
    assert_nothing_left,
    hold_with_images,
    inhabitants,
    learned,
    lives_of,
    summary,
)
from real_runs import runs

pytestmark = [pytest.mark.processes, needs_criu, pytest.mark.long]

Start = Callable[..., ElasticRun]
ACTORS, STEPS, KILLS = 8, 8 * 16 * 12, 2


def test_eight_actors_in_every_state(start: Start, home: Path) -> None:
    """Eight actors on at most two slots: some sample, some are dumped, images, restored."""
    chance = random.Random(8)
    (home / "slow").touch()
    first = start(
        "counted.py:workload", "--actors", ACTORS, "--total-steps", STEPS, park="checkpoint"
    )
    run, saved = first, first.folder / "checkpoint" / "manifest.json"
    for _ in range(KILLS):
        before = first.updates
        run.until(lambda: first.updates > before and saved.exists())  # noqa: B023
        time.sleep(chance.uniform(0.0, 0.4))
        run.process.kill()
        run.wait()
        outlived = left_after(home, 15.0)
        assert len(outlived) <= 2, "more than were just being restored"
        done = first.updates
        run = start("--resume", "run")
        run.until(lambda: first.updates > done)  # noqa: B023
        assert not any(runs(process) for process in outlived)
    (home / "slow").unlink()
    run.done()
    assert_nothing_left(home)
    assert summary(first.folder)["steps"] == STEPS
    # A part that is resumed counts its steps from 0 again.
    lives = [life for rows in learned(first.folder).values() for life in lives_of(rows[:, 2:])]
    assert sum(len(life) for life in lives) == STEPS
    seeds = [life[0, LIFE] for life in lives]
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize("kept", ["disk", "elsewhere"])
def test_who_is_never_resumed_is_cleaned_up(kept: str, start: Start, home: Path) -> None:
    """Its images too, wherever they are; with a machine that was started anew, by its name."""
    ElasticRun.clean(home)  # what workers that other tests killed have left
    where = kept if kept == "disk" else home / kept
    run = start("counted.py:workload", "--total-steps", 320, park="checkpoint", images=where)
    hold_with_images(run, 2)
    images = list(home.glob("**/*.img"))
    assert images
    assert all(path.is_relative_to(home / "run" if kept == "disk" else where) for path in images)
    assert ElasticRun.clean(home).out == "nothing was left behind\n"
    run.process.kill()
    run.wait()
    assert images[0].parents[1].name in ElasticRun.clean(home).out
    assert_nothing_left(home)


def left_after(home: Path, seconds: float) -> list[psutil.Process]:
    """Processes that still run so long after their supervisor was killed."""
    end = time.monotonic() + seconds
    while inhabitants(home) and time.monotonic() < end:
        time.sleep(0.01)
    return inhabitants(home)
