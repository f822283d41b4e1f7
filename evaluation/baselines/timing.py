"""For scripts in any environment: measures rates, and prints the answer as one line of JSON."""

from __future__ import annotations

import importlib.metadata
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence

WARM_UP_CALLS = 3


def rate(call: Callable[[], object], items: int, seconds: float) -> float:
    """Items per second of a call that handles ``items``, over at least ``seconds``, warmed up."""
    for _ in range(WARM_UP_CALLS):
        call()
    calls, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        call()
        calls += 1
    return calls * items / elapsed


def one_core() -> None:
    """Pin this process to the last core, as for every in-process buffer of the comparison."""
    on_cpus(1)


def on_cpus(count: int) -> None:
    """Leave this process so many CPUs; JAX takes all there are, whatever threads are set."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-count:])


def answer(rates: Mapping[str, float], packages: Sequence[str]) -> None:
    """Print the result: rates by measure, and the versions of the packages used."""
    versions = {name: importlib.metadata.version(name) for name in packages}
    print(json.dumps({"rates": dict(rates), "versions": versions}), flush=True)
