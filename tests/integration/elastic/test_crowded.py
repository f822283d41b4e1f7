"""More actors than slots: they take turns, each on the CPU of its slot and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from counted import CPU, ROUND, WHEN
from elastic import needs_criu
from elastic_runs import ElasticRun, assert_exact, assert_nothing_left

from artos.system.usable_cpus import usable_cpus
from workers.checkpoint.tiers import probe

pytestmark = [
    pytest.mark.processes,
    needs_criu,
    pytest.mark.skipif(not probe()["pin"].available, reason="needs numactl"),
]

ACTORS = 6


@pytest.mark.parametrize("park", ["memory", "checkpoint"])
def test_six_actors_on_one_slot(park: str, start: Callable[..., ElasticRun], home: Path) -> None:
    """By what each row says of when and where it was sampled."""
    (home / "slow").touch()
    steps = ACTORS * ROUND * 4
    run = start(
        "counted.py:workload", "--actors", ACTORS, "--total-steps", steps, park=park, slots=1
    )
    run.done()
    lives = assert_exact(run.folder, steps)
    rounds = sorted(
        (int(rows[0]), int(rows[-1]), actor)
        for actor, (life,) in lives.items()
        for rows in life[:, WHEN].reshape(-1, ROUND)
    )
    assert len(rounds) == ACTORS * 4
    for (_, ends, one), (begins, _, other) in pairwise(rounds):
        assert ends < begins, f"actors {one} and {other} sampled at the same time"
    assert {int(cpu) for (life,) in lives.values() for cpu in life[:, CPU]} == {usable_cpus()[0]}
    assert_nothing_left(home)
