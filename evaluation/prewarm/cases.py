"""The names of what the pre-warming benchmark measures: runs, ways to wait, and figures."""

from __future__ import annotations

from evaluation.core.report import OURS

NEVER, NONE = "never parked", "images, no pre-warming"
WINDOW, QUANTILES = "images, window forecast (the paper's)", "images, quantile forecast"
WAYS = {
    NEVER: ("park=never",),
    NONE: ("park=checkpoint", "prewarm=off"),
    WINDOW: ("park=checkpoint", "prewarm=window"),
    QUANTILES: ("park=checkpoint", "prewarm=quantiles"),
}
CONSTANT, CHANGING = "constant number of actors", "changing number of actors"
APART = "constant, and a CPU without the learner"
UPDATE, MEAN = "median update", "mean update"
LEARN = "the learner's part of an update"
IN_TIME = "invocations that wait less than 50 ms for their process"
LATE = "99th percentile of these waits"
EARLY = "from the order to restore until the version"
CASES = {
    "update_s": (UPDATE, "s"), "mean_s": (MEAN, "s"), "learn_s": (LEARN, "s"),
    "in_time": (IN_TIME, "%"), "late_s": (LATE, "ms"), "early_s": (EARLY, "s"),
}  # fmt: skip


def case_of(which: str, what: str, way: str) -> str:
    """The name of a case."""
    return f"{which}, {what}: {OURS}, {way}"
