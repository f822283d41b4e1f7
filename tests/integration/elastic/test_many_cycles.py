"""One actor checkpointed and restored two hundred times in a row: nothing grows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
import pytest
from elastic import needs_criu
from elastic_runs import ElasticRun, assert_exact, assert_nothing_left

pytestmark = [pytest.mark.processes, needs_criu, pytest.mark.long]

CYCLES = 200
SLACK_KB = 4000
"""By how much the supervisor's heap may breathe in 100 cycles: half of what one image holds."""
ACTOR_KB = 300
"""By how much the actor's heap may: 3 kB a cycle."""
FILES = 3
"""How many files it may happen to have open more often: the journal, a checkpoint, a message."""


@dataclass(frozen=True)
class Holdings:
    """What a run held at a moment at which its actor was alive."""

    descriptors: int
    zombies: int
    images: int
    supervisor_kb: int
    actor_kb: int


def test_nothing_grows(start: Callable[..., ElasticRun], home: Path) -> None:
    steps = 16 * (CYCLES + 1)
    run = start(
        "counted.py:workload", "--actors", 1, "--total-steps", steps, park="checkpoint",
        images=home / "images",
    )  # fmt: skip
    seen: dict[int, Holdings] = {}

    def look() -> bool:
        for process in run.actors().get(0, []):
            if process.pid not in seen and (found := holdings(run, process)):
                seen[process.pid] = found
        return False

    run.each_moment(look)
    found = run.done()
    assert found["starts"]["restore"]["count"] >= CYCLES - 1
    assert found["restarts"] == 0
    assert [len(lives) for lives in assert_exact(run.folder, steps).values()] == [1]
    assert_nothing_left(home)
    early, late = in_the_beginning_and_in_the_end([*seen.values()])
    print(len(seen), early, late)
    assert late.descriptors <= early.descriptors + FILES
    assert late.zombies <= early.zombies
    assert late.images <= early.images
    assert late.actor_kb <= early.actor_kb + ACTOR_KB
    assert late.supervisor_kb <= early.supervisor_kb + SLACK_KB


def holdings(run: ElasticRun, actor: psutil.Process) -> Holdings | None:
    """None if it was too late to look."""
    supervisor = psutil.Process(run.process.pid)
    try:
        states = [child.status() for child in supervisor.children()]
        return Holdings(
            supervisor.num_fds(),
            states.count(psutil.STATUS_ZOMBIE),
            len(list(run.home.glob("images/images-*/*"))),
            anonymous_kb(supervisor.pid),
            anonymous_kb(actor.pid),
        )
    except (psutil.Error, OSError):
        return None


def anonymous_kb(pid: int) -> int:
    """Memory that is a process's own (kB)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    for line in lines:
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise psutil.ZombieProcess(pid)


def in_the_beginning_and_in_the_end(seen: list[Holdings]) -> tuple[Holdings, Holdings]:
    """What was usual of everything in the second and in the last quarter."""
    quarter = len(seen) // 4
    assert quarter > 10, "too few looks to tell"
    return usual(seen[quarter : 2 * quarter]), usual(seen[-quarter:])


def usual(seen: list[Holdings]) -> Holdings:
    """Medians: each look falls on another moment of a cycle."""
    names = Holdings.__dataclass_fields__
    return Holdings(*(int(median(getattr(each, name) for each in seen)) for name in names))
