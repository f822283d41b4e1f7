"""The trace on a cluster of ARTOS that Slurm carries."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from deploy.client.submit import Wanted, submit
from evaluation.core.runner import Answer
from evaluation.demand.arrivals import Arrival, answer, submitted
from evaluation.engines import simulator
from evaluation.engines.preempted import Units, counted
from evaluation.engines.ways import Way


def measure(way: Way, units: Units, folder: Path, arrivals: Sequence[Arrival]) -> Answer:
    """Start a cluster, and submit the runs of the trace to it.

    Raises:
        DeadlineExceeded: something did not happen.
        LayerFailed: a command failed.
    """
    code = folder / "code"
    code.mkdir(exist_ok=True)
    shutil.copy(simulator.__file__, code)
    runs = dict[int, str]()
    try:
        towards = way.up()
        with towards.client() as client:

            def come(number: int) -> None:
                each = arrivals[number]
                settings = {
                    "actors": each.actors, "total_steps": each.steps,
                    "book": str(folder / f"book-{number}"),
                }  # fmt: skip
                wanted = Wanted("simulator.py:workload", settings, folder=code)
                runs[number] = submit(client, wanted)["run"]

            def done() -> list[int]:
                return [number for number, run in runs.items() if client.status(run).outcome]

            with counted(units, towards) as held:
                times = submitted(arrivals, come, done)
    finally:
        way.down()
    return answer(arrivals, times, held[0])
