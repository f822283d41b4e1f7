"""A scheduler whose nodes come and go, without any process: so many as no machine here carries."""

from __future__ import annotations

import itertools
import time
from statistics import median

from artos.protocol.control import PROTOCOL, Hello, RunUp
from artos.version import VERSION
from evaluation.core.runner import Answer
from head.daemon.roster import Node
from head.daemon.run import Run
from head.daemon.scheduler import Scheduler

SLOTS, NODES_OF_A_RUN = 16, 8
"""Slots of a node; a run fills so many nodes, and as many are empty."""


def measure(nodes: int, seconds: float) -> Answer:
    """Milliseconds until the orders are there, after a node left and after one came."""
    scheduler = Scheduler()
    names = [f"n{number}" for number in range(nodes)]
    for name in names:
        _join(scheduler, name)
    for number in range(max(1, nodes // (2 * NODES_OF_A_RUN))):
        _begin(scheduler, f"r{number}", SLOTS * min(nodes // 2, NODES_OF_A_RUN))
    left: list[float] = []
    came: list[float] = []
    end = time.monotonic() + seconds
    for name in itertools.cycle(names):
        if not scheduler.actors_on(name):
            continue
        began = time.perf_counter()
        scheduler.gone([name], "it was taken away")
        scheduler.turn(time.monotonic())
        left.append(time.perf_counter() - began)
        began = time.perf_counter()
        _join(scheduler, name)
        scheduler.turn(time.monotonic())
        came.append(time.perf_counter() - began)
        if time.monotonic() > end:
            break
    return Answer({"left_ms": 1e3 * median(left), "came_ms": 1e3 * median(came)}, {})


def _join(scheduler: Scheduler, name: str) -> None:
    node = Node(name, SLOTS, time.monotonic(), f"{name}.a")
    scheduler.joined(node, Hello(name, PROTOCOL, VERSION, SLOTS))


def _begin(scheduler: Scheduler, name: str, actors: int) -> None:
    run = Run(name, {}, name, placement="pack")
    scheduler.submit(run)
    scheduler.turn(time.monotonic())
    up = RunUp(name, run.epoch, 1, b"{}", "code", "tcp://h:1", "tcp://h:2", actors)
    assert scheduler.run_up(up)
    scheduler.turn(time.monotonic())
