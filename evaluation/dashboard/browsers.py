"""CPUs of a head at rest that dashboards' browsers cost it.

``python -m evaluation.dashboard.browsers --browsers 20`` has a real head with simulated workers and
a run, and a dashboard of it whose pages so many browsers have open. ``percent`` is what the head
uses of a core meanwhile beyond what it uses alone, ``dashboard`` what the dashboard's own process
uses. With ``--timelines N`` there are N runs whose journals grow as real ones do, and each browser
follows the timeline of one of them.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec
import psutil

from artos.system.closing import Closing
from evaluation.baselines.timing import answer
from evaluation.control_plane.fleet import Fleet
from evaluation.control_plane.head_load import ACTORS, head, steady
from evaluation.dashboard.long_journal import on_and_on, trained
from evaluation.dashboard.served import Browsers, dashboard
from evaluation.lab.namespaces import until
from triggers import journal

_PATIENCE = 60.0
_SETTLES = 3.0
_MB_EACH_MINUTE = 1.0
"""By which the journal of a run grows: what a fast run of CartPole writes."""
_PERIOD = 0.25


class Growing(Closing):
    """Journals that grow, in folders of runs; ``model`` is the folder of a real run."""

    def __init__(self, model: Path, folders: Sequence[Path]) -> None:
        self._over = threading.Event()
        for folder in folders:
            (folder / "config.json").write_bytes((model / "config.json").read_bytes())
        lines = [line for line in journal.read(model / "journal.jsonl") if "t" in line]
        self._thread = threading.Thread(target=self._grow, args=(lines, folders), daemon=True)
        self._thread.start()

    def _grow(self, lines: list[dict[str, Any]], folders: Sequence[Path]) -> None:
        each = _MB_EACH_MINUTE * 1e6 / 60 * _PERIOD
        due, text = each, b""
        for size, line in on_and_on(lines):
            text += msgspec.json.encode(line) + b"\n"
            if size > due:
                due, whole, text = due + each, text, b""
                for folder in folders:
                    with (folder / "journal.jsonl").open("ab") as file:
                        file.write(whole)
                if self._over.wait(_PERIOD):
                    return

    @property
    def goes_on(self) -> bool:
        """Whether they still grow."""
        return self._thread.is_alive()

    def close(self) -> None:
        """They grow no more."""
        self._over.set()
        self._thread.join()


def measure(browsers: int, workers: int, seconds: float, timelines: int) -> dict[str, float]:
    """The head's share of a core with and without so many browsers, and the dashboard's."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        here = stack.enter_context(head(Path(folder)))
        names = [f"node{number}" for number in range(workers)]
        fleet = stack.enter_context(Fleet(here.endpoint, here.keys, names))
        until("all workers to be welcome", fleet.welcome, _PATIENCE)
        runs = [f"run{number}" for number in range(max(1, timelines))]
        for run in runs:
            here.submit(ACTORS * workers // len(runs), run)
        until("all runs to be placed", lambda: all(map(here.placements, runs)), _PATIENCE)
        if timelines:
            model = trained(Path(folder) / "model")
            growing = stack.enter_context(Growing(model, [*map(here.folder, runs)]))
        time.sleep(_SETTLES)
        alone = steady(here, seconds)
        os.environ["XDG_CACHE_HOME"] = str(Path(folder) / "cache")  # where its copies are
        at = stack.enter_context(dashboard("--head", here.endpoint, "--keys", str(here.keys)))
        (process,) = (p for p in psutil.Process().children() if "dashboard" in p.cmdline())
        pages = stack.enter_context(closing(Browsers(at, browsers, runs, follow=timelines > 0)))
        until("all pages to be told something", lambda: pages.told >= browsers, _PATIENCE)
        if timelines:
            until("all timelines to be drawn", lambda: len(pages.drawn) == browsers, _PATIENCE)
        first = pages.drawn.copy()
        time.sleep(_SETTLES)
        own, drawn, errors = _seconds_of(process), pages.drawn.copy(), len(pages.errors)
        began = time.monotonic()
        looked_at = steady(here, seconds)
        took = time.monotonic() - began
        own = (_seconds_of(process) - own) / took
        found = {"percent": looked_at - alone, "alone": alone, "dashboard": own}
        again = pages.drawn.copy()
        pages.check(errors)
        if timelines:
            _see(growing, [again[page] - first[page] for page in range(browsers)])
        asked = {"drawn": (again.total() - drawn.total()) / took} if timelines else {}
    return {name: 100 * share for name, share in found.items()} | asked


def _see(growing: Growing, drawn: Sequence[int]) -> None:
    """That journals still grow, and that each page drew its timeline again and again."""
    if not growing.goes_on:
        raise SystemExit("the journals grow no more")
    if not all(drawn):
        raise SystemExit(f"{drawn.count(0)} of {len(drawn)} pages drew no timeline")


def _seconds_of(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browsers", type=int, default=20)
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--timelines", type=int, default=0, metavar="N")
    options = parser.parse_args()
    found = measure(options.browsers, options.workers, options.seconds, options.timelines)
    answer(found, ("starlette", "uvicorn", "pyzmq"))


if __name__ == "__main__":
    main()
