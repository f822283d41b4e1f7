"""More actors than slots: they take turns."""

from __future__ import annotations

from deploy.why.evidence import Evidence, without
from deploy.why.finding import Finding
from deploy.why.history import SLOT


def look(run: Evidence) -> Finding | None:
    """A slot for each actor, where there are CPUs for more of them."""
    share = run.share(SLOT)
    if share <= 0:
        return None
    figure = f"{share:.0%} of the time actors wait for a slot"
    if run.history.quota:
        figure = f"{figure}, as {run.history.quota}"
        advice = (f"in head.toml: a quota of slots = {run.actors}",)
        return Finding("scheduler's quota", without(share), figure, advice)
    slots = run.number("slots", 0.0)
    if run.history.far or not 0 < slots < min(run.cpus, run.actors):
        return None
    return Finding("few slots", without(share), figure, ("--set slots=0",))
