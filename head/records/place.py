"""Where rows and evaluations of a run stand on curves and in trackers."""

from __future__ import annotations

STEPS, UPDATES = "environment steps", "updates"


def place(steps: int, updates: int) -> int:
    """After so many environment steps; of a run without actors, which makes none, its updates."""
    return steps or updates
