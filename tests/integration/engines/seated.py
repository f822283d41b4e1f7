"""A run that lasts as long as a test needs, and whose learner wants a device."""

from __future__ import annotations

from dataclasses import replace

import endless
import placed

from artos import Workload


class Seated(placed.Anywhere, endless.Endless):
    """Says that it can compute on any device, keeps no book, and does so on the CPU."""


def workload(actors: int = 2, total_steps: int = 0) -> Workload:
    return replace(endless.workload(actors, total_steps), name="seated", learner=Seated())
