"""Both sides of the figures that are of runs whose number of actors changes."""

from __future__ import annotations

import os
from collections.abc import Callable

from artos.system import heap
from evaluation.core.report import OURS
from evaluation.core.runner import Answer, Say, baseline, ours

RAY = "Ray"


def calls(
    words: tuple[str, ...], seconds: float, say: Say, *rays: str
) -> dict[str, Callable[[], Answer]]:
    """How to run each side with these words, for so many seconds at most; ``rays`` are Ray's."""
    # Ray's learner has all cores whatever else is there; ours would follow what that leaves free.
    threads = f"threads={len(os.sched_getaffinity(0))}"
    return {
        OURS: ours("elasticity.artos_adaptive", *words, "--set", threads, seconds=seconds),
        RAY: baseline(
            "ray", "elasticity.ray_adaptive", *words, *rays, seconds=seconds, say=say,
            environment=heap.ENVIRONMENT,
        ),
    }  # fmt: skip
