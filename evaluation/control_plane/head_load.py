"""The cost of workers for their head: real daemon, real messages, many simulated nodes.

``python -m evaluation.control_plane.head_load --workers 1000`` answers with ``head_cpu``, the CPUs
that the head uses while its workers send heartbeats and reports every second and one run has 16
actors on each; ``messages_per_s``, the reports per second that the head takes when all come at
once; ``killed_s``, the seconds until the run knows that a worker's process has ended; and
``noticed_s``, those after the deadline of a worker that has fallen silent.

The head is ``head.daemon.daemon`` in a process of its own. The workers are messengers, many in a
process (``evaluation.control_plane.fleet``). The run only sends the messages that a run process
sends (``evaluation.control_plane.fleet_run``).
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil

from artos.system.logging_setup import logging_to
from artos.transport.keys import make_keys
from deploy.client.head_client import HeadClient
from evaluation.baselines.timing import answer
from evaluation.control_plane import fleet_run
from evaluation.control_plane.fleet import Fleet
from evaluation.lab.namespaces import until
from head.daemon.daemon import HeadDaemon
from head.daemon.options import HeadOptions

ACTORS = 16
"""Actors on each worker."""
_DEADLINE, _PATIENCE = 5.0, 120.0
_PROCESSES = 4
_RUN, _SILENT = "fleet", "silent"


def head_main(options: HeadOptions, tell: Any) -> None:
    """The head's process: the real daemon, which starts simulated runs."""
    with (
        logging_to(lambda text: None),
        HeadDaemon(options, run_process=fleet_run.MODULE) as daemon,
    ):
        tell.send(daemon.endpoint)
        daemon.run()


class Head:
    """The benchmark's handle on the head."""

    def __init__(self, pid: int, endpoint: str, keys: Path, runs: Path) -> None:
        self.endpoint, self.keys, self._runs = endpoint, keys, runs
        self._process = psutil.Process(pid)

    def cpu_seconds(self) -> float:
        """CPU-seconds the head has used so far."""
        return float(sum(self._process.cpu_times()[:2]))

    def submit(self, actors: int, run: str = _RUN) -> None:
        """Start a run with ``actors`` actors."""
        with HeadClient(self.endpoint, self.keys) as client:
            settings = {"actors": actors}
            request = {"ticket": run, "workload": "fleet", "settings": settings, "run_dir": run}
            client.submit(request, "", b"", "spread")

    def placements(self, run: str = _RUN) -> list[fleet_run.Placement]:
        """The placements that a run has been told so far."""
        return fleet_run.read(self.folder(run))

    def folder(self, run: str = _RUN) -> Path:
        """Where a run's records are."""
        return self._runs / run


@contextmanager
def head(folder: Path) -> Iterator[Head]:
    """A head on this machine, killed at the end."""
    keys, runs = folder / "keys", folder / "runs"
    make_keys(keys)
    options = HeadOptions("tcp://127.0.0.1:*", keys, runs, _DEADLINE)
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=head_main, args=(options, sender))
    process.start()
    try:
        if not receiver.poll(_PATIENCE):
            raise SystemExit("the head did not start")
        assert process.pid is not None
        yield Head(process.pid, receiver.recv(), keys, runs)
    finally:
        process.kill()
        process.join()


def measure(workers: int, seconds: float, reports: int) -> dict[str, float]:
    """All measures: ``seconds`` of rest, then ``reports`` of each worker at once, then a death."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        here = stack.enter_context(head(Path(folder)))
        fleets = [
            stack.enter_context(Fleet(here.endpoint, here.keys, names))
            for names in (*divided(workers - 1, _PROCESSES), [_SILENT])
        ]
        until(
            "all workers to be welcome", lambda: all(each.welcome() for each in fleets), _PATIENCE
        )
        here.submit(ACTORS * workers)
        placed = ACTORS * workers
        until("all actors to have a place", lambda: _placed(here) == placed, _PATIENCE)
        found = {"head_cpu": steady(here, seconds)}
        found["messages_per_s"] = flood(fleets, workers, reports)
        name, killed = fleets[0].kill()
        found["killed_s"] = told_of(here, name) - killed
        silent = fleets[-1].freeze()
        found["noticed_s"] = told_of(here, _SILENT) - silent - _DEADLINE
    return found


def divided(workers: int, processes: int) -> list[list[str]]:
    """Names of the workers in each process; no process is empty."""
    names = [f"node{number}" for number in range(workers)]
    return [names[start::processes] for start in range(min(processes, workers))]


def _placed(here: Head) -> int:
    told = here.placements()
    return told[-1].actors if told else 0


def steady(here: Head, seconds: float) -> float:
    """CPUs that the head uses while the cluster is at rest."""
    cpu, began = here.cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    return (here.cpu_seconds() - cpu) / (time.monotonic() - began)


def flood(fleets: list[Fleet], workers: int, reports: int) -> float:
    """Messages per second that the head takes when all workers report as fast as they can."""
    began = time.monotonic()
    for each in fleets:
        each.report(reports)
    for each in fleets:
        each.reported()
    return workers * reports / (time.monotonic() - began)


def told_of(here: Head, name: str) -> float:
    """When the run was told that a worker is gone (monotonic seconds).

    Raises:
        DeadlineExceeded: it was never told.
    """

    def noticed() -> list[float]:
        return [told.at for told in here.placements() if name in told.gone]

    until(f"the end of {name} to be noticed", noticed, _DEADLINE + _PATIENCE)
    return noticed()[0]


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10.0, help="of watching the head at rest")
    parser.add_argument("--reports", type=int, default=50, help="of each worker, all at once")
    options = parser.parse_args()
    found = measure(options.workers, options.seconds, options.reports)
    answer(found, ("pyzmq", "msgspec"))


if __name__ == "__main__":
    main()
