"""Actors give up their processes between rounds, and have to get them back."""

from __future__ import annotations

from deploy.why.evidence import Evidence, without
from deploy.why.finding import Finding
from deploy.why.history import PROCESS

_FEWEST = 3
"""With fewer updates, all that there is to look at is how the run began."""


def look(run: Evidence) -> Finding | None:
    """They wait in memory. That of each had to start once, whoever parks it."""
    park = run.settings.get("park", "auto")
    if len(run.updates) < _FEWEST or park in ("memory", "never"):
        return None
    seconds = 0.0
    for charge, waited in run.chain.items():
        if charge.kind == PROCESS and (past := run.history.members.get(charge.member)):
            seconds += max(0.0, waited - past[0].kept.get(PROCESS, 0.0))
    share = seconds / (run.seconds or 1.0)
    figure = f"{share:.0%} of the time actors wait for their processes, which park={park} took away"
    return Finding("parked too eagerly", without(share), figure, ("--set park=memory",))
