"""CPUs shared out equally among all that compute, on a simulated clock."""

from __future__ import annotations

import pytest

from deploy.simulation.processors import Processors
from deploy.simulation.timeline import Timeline


def ends(count: int, jobs: dict[str, tuple[float, float]]) -> dict[str, float]:
    """When each job ends that comes at the first time and takes the second, on so many CPUs."""
    timeline, found = Timeline(), dict[str, float]()
    processors = Processors(count, timeline)

    def end(name: str) -> None:
        found[name] = timeline.clock.now()

    for name, (comes, takes) in jobs.items():
        timeline.after(comes, lambda n=name, s=takes: processors.compute(s, lambda: end(n)))
    timeline.run(lambda: None)
    return found


@pytest.mark.parametrize(
    ("count", "jobs", "found"),
    [
        (1, {"a": (0, 2.0)}, {"a": 2.0}),
        (1, {"a": (0, 1.0), "b": (0, 1.0)}, {"a": 2.0, "b": 2.0}),
        (1, {"a": (0, 1.0), "b": (0, 2.0)}, {"a": 2.0, "b": 3.0}),
        (1, {"a": (0, 2.0), "b": (1, 2.0)}, {"a": 3.0, "b": 4.0}),
        (2, {"a": (0, 1.0), "b": (0, 2.0)}, {"a": 1.0, "b": 2.0}),
        (2, {"a": (0, 2.0), "b": (0, 2.0), "c": (0, 2.0)}, {"a": 3.0, "b": 3.0, "c": 3.0}),
        (2, {"a": (0, 1.0), "b": (5, 0.0)}, {"a": 1.0, "b": 5.0}),
    ],
)
def test_ends(count: int, jobs: dict[str, tuple[float, float]], found: dict[str, float]) -> None:
    assert ends(count, jobs) == pytest.approx(found)
