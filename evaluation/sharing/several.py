"""Several copies of one measurement, at once, as one measurement."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from evaluation.core.runner import Answer
from evaluation.sharing.merging import together


def at_once(single: Callable[[], Answer], count: int) -> Callable[[], Answer]:
    """So many copies side by side; ``makespan_s`` goes from the first start to the last end."""

    def measure() -> Answer:
        with ThreadPoolExecutor(count) as threads:
            began = time.perf_counter()
            waiting = [threads.submit(single) for _ in range(count)]
            answers = [each.result() for each in waiting]
            return merged(answers, time.perf_counter() - began)

    return measure


def merged(answers: Sequence[Answer], makespan: float) -> Answer:
    """The measures of all copies as one answer."""
    return Answer(together([each.rates for each in answers], makespan), answers[0].versions)
