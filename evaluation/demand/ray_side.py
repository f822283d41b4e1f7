"""The trace on Ray, whose autoscaler starts and ends machines; each run is a driver of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from artos.errors import ArtosError
from evaluation.core.runner import Answer
from evaluation.core.sources import ROOT
from evaluation.demand.arrivals import Arrival, answer, submitted
from evaluation.lab.raylets import autoscaled_ray


class DriverFailed(ArtosError):
    """A process of Ray's side failed. ``why`` is the end of what it said."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"a driver of Ray's side failed: {why}")


def measure(python: Path, folder: Path, idle: float, arrivals: Sequence[Arrival]) -> Answer:
    """Start a cluster whose machines leave after ``idle`` seconds, and run the trace on it.

    Raises:
        DeadlineExceeded: a run did not end.
        DriverFailed: one failed.
        RayEnded: the cluster did not start.
    """
    with autoscaled_ray(python, folder, head_cpus=0, idle=idle) as ray, ExitStack() as stack:
        log = stack.enter_context((folder / "drivers.log").open("w"))
        drivers = dict[int, subprocess.Popen[str]]()

        def started(module: str, *words: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [python, "-m", f"evaluation.demand.{module}", *words], text=True, stderr=log,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_env(ray.variables),
            )  # fmt: skip
            stack.callback(process.__exit__, None, None, None)
            stack.callback(process.kill)
            return process

        def told(process: subprocess.Popen[str]) -> str:
            out, _ = process.communicate(timeout=60.0)
            if process.returncode:
                raise DriverFailed(Path(log.name).read_text(errors="replace")[-2000:])
            return out

        def come(number: int) -> None:
            each = arrivals[number]
            drivers[number] = started("ray_run", str(each.actors), str(each.steps))

        def done() -> list[int]:
            over = [number for number, each in drivers.items() if each.poll() is not None]
            for number in over:
                if drivers[number].returncode:
                    told(drivers[number])
            return over

        watch = started("ray_watch")
        assert watch.stdout is not None
        watch.stdout.readline()  # it counts from here on
        times = submitted(arrivals, come, done)
        return answer(arrivals, times, float(json.loads(told(watch))))


def _env(variables: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, **variables, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
