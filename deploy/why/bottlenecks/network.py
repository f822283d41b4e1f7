"""Rows and weights take long from machine to machine."""

from __future__ import annotations

from deploy.why.evidence import Evidence, without
from deploy.why.finding import Finding
from deploy.why.history import NETWORK

_MUCH = 100_000
"""Bytes an update; with fewer, a message takes as long as an empty one, more or less."""


def look(run: Evidence) -> Finding | None:
    """Fewer bytes; and in turn, rows travel while others are sampled and learned from."""
    share = run.share(NETWORK)
    if share <= 0:
        return None
    rest, advice = share, []
    if run.moved >= _MUCH and run.settings.get("wire_dtype") == "float32":
        rest, advice = share / 2, ["--set wire_dtype=bfloat16"]
    gain, work = without(share - rest), (run.sampling, run.learning)
    older = run.to_set("max_lag", 1, "DataKeyTrigger")
    if older and run.in_turn and share > max(work):  # otherwise this is all the more so of work
        advice.append(older)
        gain = without(share + sum(work) - max(rest, *work))
    if not advice:
        return None
    figure = f"{share:.0%} of the time weights or rows are on their way between machines"
    return Finding("network", gain, figure, (" ".join(advice),))
