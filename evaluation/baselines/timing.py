"""For the scripts of other libraries: how fast something runs, and one JSON line as the answer."""

from __future__ import annotations

import importlib.metadata
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence

WARM_UP_CALLS = 3


def rate(call: Callable[[], object], items: int, seconds: float) -> float:
    """Items a second of a call that handles ``items``, over at least ``seconds``, warmed up."""
    for _ in range(WARM_UP_CALLS):
        call()
    calls, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        call()
        calls += 1
    return calls * items / elapsed


def one_core() -> None:
    """Keep this process on the last core, as every in-process buffer of the comparison is."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def answer(rates: Mapping[str, float], packages: Sequence[str]) -> None:
    """Print the result: rates by case, and the versions of the packages that made them."""
    versions = {name: importlib.metadata.version(name) for name in packages}
    print(json.dumps({"rates": dict(rates), "versions": versions}), flush=True)
