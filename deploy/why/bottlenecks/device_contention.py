"""Other learners have the device that this one waits for."""

from __future__ import annotations

from deploy.why.evidence import Evidence, without
from deploy.why.finding import Finding
from deploy.why.history import DEVICE


def look(run: Evidence) -> Finding | None:
    """Its turn comes first, or there is one more device."""
    share = run.share(DEVICE)
    if share <= 0:
        return None
    priority = int(run.number("priority", 0.0)) + 1
    figure = f"{share:.0%} of the time the learner waits for a device that others have"
    advice = (f"--priority {priority}", "one device more for `--devices` of the pool")
    return Finding("device contention", without(share), figure, advice)
