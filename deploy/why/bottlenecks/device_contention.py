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
    whose = "the learner waits for a device that others have"
    figure = f"{share:.0%} of the time {whose}, an update takes {run.update:.3g} s"
    # Its turn comes when another one's update is over: half of one, if they take as long as its.
    left = min(share, len(run.updates) * run.update / 2 / max(run.seconds, 1e-9))
    advice = (f"--priority {priority}", "one device more for `--devices` of the pool")
    return Finding("device contention", without(share - left), figure, advice)
