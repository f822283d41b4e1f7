"""CRIU killed in the middle of what it does for a run: the run goes on as if nothing had been."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from elastic import needs_criu
from elastic_runs import ElasticRun, assert_exact, assert_nothing_left
from real_runs import journal

from workers.checkpoint.criu.cleanup import MARK
from workers.checkpoint.criu.find import find_criu

pytestmark = [pytest.mark.processes, needs_criu, pytest.mark.long]

KILLS, STEPS = 3, 7680
DUMP, RESTORE = "waits in memory for now", "is started again"
"""What is said of a dump and of a restore that came to nothing."""
HEARD = 0.15
"""Seconds after which the harm that a kill did has been said."""
LONGEST = {"dump": 0.04, "restore": 0.015}
"""Seconds of work after which one is killed at the latest, less than either takes."""


class Killer:
    """SIGKILLs CRIU processes, each at a random moment of its work, till there was harm enough.

    Dumps and restores in turn: an actor of which no dump succeeds stays in memory for good.
    """

    def __init__(self, run: ElasticRun, chance: random.Random) -> None:
        self._run, self._chance = run, chance
        self._met: set[int] = set()
        self._again = 0.0
        self.kills: Counter[str] = Counter()

    def look(self) -> bool:
        """Kill one; whether there were enough of both kinds in time to do harm."""
        harmed = {"dump": self._run.said.count(DUMP), "restore": self._run.said.count(RESTORE)}
        for kind, process in self._run.requests():
            due = harmed[kind] == min(harmed.values()) < KILLS and time.monotonic() >= self._again
            if due and process.pid not in self._met:
                self._met.add(process.pid)
                self._kill(kind, process)
                self._again = time.monotonic() + HEARD
        return min(harmed.values()) >= KILLS

    def _kill(self, kind: str, process: psutil.Process) -> None:
        time.sleep(self._chance.uniform(0.0, LONGEST[kind]))
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                process.kill()
                self.kills[kind] += 1
        except psutil.NoSuchProcess:
            pass


def test_in_mid_dump_and_mid_restore(start: Callable[..., ElasticRun], home: Path) -> None:
    run = start("counted.py:workload", "--total-steps", STEPS, park="checkpoint", start="clone")
    run.until(lambda: run.updates)
    killer = Killer(run, random.Random(5))
    run.each_moment(killer.look)
    run.done()
    assert killer.look(), f"too few were killed in time: {killer.kills}"
    assert "CRIU died in the middle (signal 9)" in run.said
    assert_nothing_left(home)
    lives = assert_exact(home / "run", STEPS)
    # A killed restore costs a life, a killed dump none, unless its process dies of it.
    died = sum("died" in line for line in journal(run.folder))
    assert sum(len(of) for of in lives.values()) == 2 + run.said.count(RESTORE) + died


@pytest.fixture
def slow_criu(tmp_path: Path) -> dict[str, str]:
    """A CRIU whose restores begin so late that each is seen, also on a machine with much to do."""
    script = tmp_path / "criu"
    script.write_text(f'#!/bin/sh\n[ -z "${MARK}" ] || sleep 0.3\nexec {find_criu()} "$@"\n')
    script.chmod(0o755)
    return {"ARTOS_CRIU": str(script)}


def test_while_it_makes_clones(
    start: Callable[..., ElasticRun], home: Path, slow_criu: dict[str, str]
) -> None:
    arguments = ("counted.py:workload", "--total-steps", 128)
    run = start(*arguments, environment=slow_criu, park="memory", start="clone")
    killed: list[int] = []

    def kill_two() -> bool:
        for kind, process in run.requests():
            if kind == "restore" and process.pid not in killed and len(killed) < 2:
                killed.append(process.pid)
                process.kill()
        return len(killed) == 2

    run.each_moment(kill_two)
    found = run.done()
    assert len(killed) == 2
    assert found["starts"]["clone"]["count"] == 2
    assert "fork" not in found["starts"]
    assert [len(lives) for lives in assert_exact(home / "run", 128).values()] == [1, 1]
    assert_nothing_left(home)
