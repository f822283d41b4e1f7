"""The names of what the sharing benchmark measures: who, how many workloads, and what of them."""

from __future__ import annotations

from evaluation.core.report import OURS

RAY, IN_TURN = "Ray", f"{OURS}, in turn"
RAY_NARROW, RAY_IN_TURN = f"{RAY}, one thread a learner", f"{RAY}, in turn"
RAY_BY_TWO = f"{RAY}, two by two"
IDEAL = f"{OURS}, ideal for two"
COUNTS = (1, 2, 4)
MEASURES = {
    "update_s": "update",
    "makespan_s": "makespan, start-up included",
    "held_cpu_s": "CPU slots held",
    "used_cpu_s": "CPU used by actors",
    "held_device_s": "device held",
}


def named(workload: str, count: int, who: str, key: str) -> str:
    """The case of a measure, for so many workloads of a contestant."""
    return f"{count} {workload}, {MEASURES[key]}: {who}"
