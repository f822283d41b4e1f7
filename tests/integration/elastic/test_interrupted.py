"""Ctrl-C while actors are being checkpointed and restored: nothing is left of anything."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from elastic import needs_criu
from elastic_runs import ElasticRun, assert_exact, assert_nothing_left, summary

pytestmark = [pytest.mark.processes, needs_criu]

Start = Callable[..., ElasticRun]
STOP = signal.SIGTERM
"""Heard like Ctrl-C, which a test that a shell runs in the background would not hear."""


def begin(start: Start) -> ElasticRun:
    """A run with six actors that wait as images between their rounds, in the midst of that."""
    run = start("counted.py:workload", "--actors", 6, "--total-steps", 7680, park="checkpoint")
    run.until(lambda: run.updates)
    return run


def test_once(start: Start, home: Path) -> None:
    run = begin(start)
    run.each_moment(lambda: any(run.requests()))
    run.signal(STOP)
    assert run.wait().status == 130
    assert_nothing_left(home)
    found = summary(run.folder)
    assert found["outcome"] == "interrupted"
    assert_exact(run.folder, found["steps"])


@pytest.mark.parametrize("kind", ["dump", "restore"])
def test_twice(kind: str, start: Start, home: Path) -> None:
    chance = random.Random(kind)
    run = begin(start)
    run.each_moment(lambda: any(request.kind == kind for request in run.requests()))
    run.signal(STOP)
    time.sleep(chance.uniform(0.0, 0.05))
    run.signal(STOP)
    assert run.wait().status == 130
    assert_nothing_left(home)
    assert summary(run.folder)["outcome"] == "interrupted"
