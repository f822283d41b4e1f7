"""Two runs on one machine share its CPU slots; what a killed one held is the other's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from real_runs import Artos, shared_memory

from artos.pool.view import HeldUsage, read_pool

pytestmark = pytest.mark.processes

Start = Callable[..., Artos]
STEPS = 36_000


def held(name: str) -> list[HeldUsage]:
    return [each for each in read_pool().workloads if each.workload.startswith(f"{name}.")]


def begun(start: Start, home: Path, name: str) -> Artos:
    return start(
        "run", "counting.py:workload", "--run-dir", home / name, "--total-steps", STEPS, "--json"
    )


def test_the_slots_of_a_killed_run_are_the_others(start: Start, home: Path) -> None:
    slow = home / "slow"
    slow.touch()
    one, two = begun(start, home, "one"), begun(start, home, "two")
    for run, name in ((one, "one"), (two, "two")):
        run.until(lambda name=name: any(each.held_seconds > 0.2 for each in held(name)))
    kinds = {each.kind for name in ("one", "two") for each in held(name)}
    assert len(kinds) == 1, "they queue for the same slots"
    one.children()
    one.process.kill()
    two.until(lambda: not any(each.workload.startswith("one.") for each in read_pool().holders))
    slow.unlink()
    assert two.wait().status == 0
    assert not two.survivors()


@pytest.mark.long
def test_nothing_is_left_of_the_pool_after_the_last_run(start: Start, home: Path) -> None:
    runs = [begun(start, home, name) for name in ("one", "two")]
    assert [run.wait().status for run in runs] == [0, 0]
    assert not Path(read_pool().folder).exists()
    assert not shared_memory()
    for name in ("one", "two"):  # they print to the same file
        assert json.loads((home / name / "summary.json").read_text())["steps"] == STEPS
