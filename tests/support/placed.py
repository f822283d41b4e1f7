"""`counting.py` with a learner that says it can compute on any device, and does so on the CPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from counting import Bookkeeper
from counting import workload as counted

from artos import Workload


class Anywhere(Bookkeeper):
    """Needs no PyTorch, whose import would take most of the time of a test."""

    def device_for(self, wanted: str, module: object) -> str:
        return wanted

    def device_faults(self, wanted: str) -> Iterable[str]:
        return ()


def named(actors: int = 2, total_steps: int = 6000) -> Workload:
    """One that says itself where its learner computes."""
    return replace(workload(actors, total_steps), device="pool")


def workload(actors: int = 2, total_steps: int = 6000) -> Workload:
    return replace(counted(actors, total_steps), learner=Anywhere())
