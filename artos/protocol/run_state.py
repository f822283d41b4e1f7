"""The states of a run, in the words of ``artos status``."""

from __future__ import annotations

QUEUED, STARTING, RUNNING, STOPPING, DONE, FAILED = (
    "queued",
    "starting",
    "running",
    "stopping",
    "done",
    "failed",
)
ACTIVE = (STARTING, RUNNING, STOPPING)
"""States in which a run has, or is about to have, a process."""
OVER = (DONE, FAILED)


def at_the_end(outcome: str) -> str:
    """The state of a run that is over; an interrupted run ended as requested: it is done."""
    return DONE if outcome in ("done", "interrupted") else FAILED
