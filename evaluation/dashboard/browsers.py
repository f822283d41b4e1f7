"""CPUs of a head at rest that dashboards' browsers cost it.

``python -m evaluation.dashboard.browsers --browsers 20`` has a real head with simulated workers and
a run, and a dashboard of it whose pages so many browsers have open. ``percent`` is what the head
uses of a core meanwhile beyond what it uses alone, ``dashboard`` what the dashboard's own process
uses.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

import psutil

from evaluation.baselines.timing import answer
from evaluation.control_plane.fleet import Fleet
from evaluation.control_plane.head_load import ACTORS, head, steady
from evaluation.dashboard.served import Browsers, dashboard
from evaluation.lab.namespaces import until

_PATIENCE = 60.0
_SETTLES = 3.0


def measure(browsers: int, workers: int, seconds: float) -> dict[str, float]:
    """The head's share of a core with and without so many browsers, and the dashboard's."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        here = stack.enter_context(head(Path(folder)))
        names = [f"node{number}" for number in range(workers)]
        fleet = stack.enter_context(Fleet(here.endpoint, here.keys, names))
        until("all workers to be welcome", fleet.welcome, _PATIENCE)
        here.submit(ACTORS * workers)
        until("the run to be placed", here.placements, _PATIENCE)
        time.sleep(_SETTLES)
        alone = steady(here, seconds)
        at = stack.enter_context(dashboard("--head", here.endpoint, "--keys", str(here.keys)))
        (process,) = (p for p in psutil.Process().children() if "dashboard" in p.cmdline())
        pages = stack.enter_context(closing(Browsers(at, browsers, "fleet")))
        until("all pages to be told something", lambda: pages.told >= browsers, _PATIENCE)
        time.sleep(_SETTLES)
        used, began = sum(process.cpu_times()[:2]), time.monotonic()
        looked_at = steady(here, seconds)
        own = (sum(process.cpu_times()[:2]) - used) / (time.monotonic() - began)
    return {"percent": 100 * (looked_at - alone), "alone": 100 * alone, "dashboard": 100 * own}


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browsers", type=int, default=20)
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    found = measure(options.browsers, options.workers, options.seconds)
    answer(found, ("starlette", "uvicorn", "pyzmq"))


if __name__ == "__main__":
    main()
