"""The run stands still while its records are written."""

from __future__ import annotations

from deploy.why.evidence import Evidence, without
from deploy.why.finding import Finding
from deploy.why.history import DISK


def look(run: Evidence) -> Finding | None:
    """Another disk, and less to write."""
    share = run.share(DISK)
    if share <= 0:
        return None
    advice = ["--run-dir on a faster disk"]
    if run.settings.get("checkpoint") == "all":
        advice.append("--set checkpoint=model")
    figure = f"{share:.0%} of the time the run waits until its records are written"
    return Finding("slow disk", without(share), figure, tuple(advice))
