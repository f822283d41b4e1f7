"""Actors give up their processes between rounds, and have to get them back."""

from __future__ import annotations

from deploy.why.evidence import Evidence, without
from deploy.why.finding import Finding
from deploy.why.history import PROCESS


def look(run: Evidence) -> Finding | None:
    """They wait in memory."""
    share, park = run.share(PROCESS), run.settings.get("park", "auto")
    if share <= 0 or park in ("memory", "never"):
        return None
    figure = f"{share:.0%} of the time actors wait for their processes, which park={park} took away"
    return Finding("parked too eagerly", without(share), figure, ("--set park=memory",))
