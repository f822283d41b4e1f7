"""Which runs come when: two busy times with little to do in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from artos.errors import DeadlineExceeded
from evaluation.core.runner import Answer

LAST = 300.0
"""Most seconds of the last run."""
_LOOK = 0.2


class Arrival(NamedTuple):
    """A run, and when it is submitted."""

    at: float
    """Seconds from the beginning."""
    actors: int
    steps: int
    """Of its environments; an actor that has a CPU to itself takes 250 in a second."""


TRACE = (
    Arrival(0.0, 4, 20_000),
    Arrival(5.0, 2, 8_000),
    Arrival(120.0, 1, 6_000),
    Arrival(220.0, 4, 16_000),
)
"""Two machines of two CPUs have enough to do at its beginning and at its end."""
QUICK = (Arrival(0.0, 2, 500), Arrival(1.0, 1, 250))


def submitted(
    arrivals: Sequence[Arrival], submit: Callable[[int], None], done: Callable[[], Collection[int]]
) -> dict[str, float]:
    """Submit each run when it comes, and wait until all have ended.

    ``submit`` is given a run's number, ``done`` tells the numbers of those that have ended.
    Returns seconds: ``makespan_s``, and ``turnaround_s``, the mean from a run's arrival to its end.

    Raises:
        DeadlineExceeded: the last one took too long.
    """
    began, ended = time.monotonic(), dict[int, float]()
    coming = [*enumerate(arrivals)]
    while len(ended) < len(arrivals):
        now = time.monotonic() - began
        if now > arrivals[-1].at + LAST:
            raise DeadlineExceeded(f"{len(arrivals) - len(ended)} runs of the trace", now)
        while coming and coming[0][1].at <= now:
            submit(coming.pop(0)[0])
        for number in done():
            ended.setdefault(number, now)
        time.sleep(_LOOK)
    took = [ended[number] - each.at for number, each in enumerate(arrivals)]
    return {"makespan_s": max(ended.values()), "turnaround_s": sum(took) / len(took)}


def answer(arrivals: Sequence[Arrival], times: dict[str, float], held: float) -> Answer:
    """What was measured, with the node-seconds that were ``held`` meanwhile."""
    steps = sum(each.steps for each in arrivals)
    return Answer({**times, "held_s": held, "steps_per_node_s": steps / held}, {})
