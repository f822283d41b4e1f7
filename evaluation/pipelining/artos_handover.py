"""One machine: the time that rounds take from 16 actors to the learner.

``python -m evaluation.pipelining.artos_handover --recording FOLDER`` answers with ``cursors_s``,
from the end of the last actor's sampling until the learner's update runs with all rows readable in
place, and ``batch_s``, until all keys of them are gathered into one batch.

Learner and actors are processes with the real roles, blocks and mailboxes (``prefilled``);
coordinator, engine and triggers are real too. Rows are in place beforehand, because an actor writes
them step by step while it samples.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from artos.buffer.model_block import ObjectSpec
from artos.buffer.object_region import ObjectRegion
from artos.buffer.samplers.batch import Batch
from artos.clock import SystemClock
from artos.errors import DeadlineExceeded
from artos.protocol.invocations import Done, Failed, Invoke, decode_from_member
from artos.runs.plan import Plan
from artos.runs.run_memory import RunMemory
from artos.specs.contracts import Learner
from artos.specs.keys import MODEL_PARAM, ArraySpec
from artos.specs.members import ACTORS
from evaluation.baselines.timing import answer
from evaluation.pipelining.iterations import WARM_UP
from evaluation.pipelining.prefilled import SAMPLED, SECONDS, members
from evaluation.pipelining.rounds import OBSERVATIONS, SMALL, Recording
from evaluation.pipelining.rounds_plan import PARAMS, fill, plan
from head.run.coordination.ports import Ports
from head.run.run import Run
from head.run.wiring import connect
from triggers.journal import Journal
from triggers.table import Table


class Receiver(Learner):
    """A learner that only measures when it could read the rows."""

    def __init__(self, region: ObjectRegion) -> None:
        self._live = {each.name: np.zeros(each.shape, each.dtype) for each in region.spec.arrays}

    def live(self) -> Mapping[str, NDArray[Any]]:
        """The weights."""
        return self._live

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """Read the rows in place, then as one batch; then have the next round sampled."""
        del call
        views = batch.views(OBSERVATIONS)
        handed_over = time.perf_counter()
        for name in (OBSERVATIONS, *SMALL):
            batch.gather(name)
        gathered = time.perf_counter()
        assert len(views) == batch.shape[0]
        sampled = float(batch.gather(SAMPLED.name)[:, -1].max())
        self.fresh = True
        return {"cursors_s": handed_over - sampled, "batch_s": gathered - sampled}


def measure(
    workload: tuple[Plan, Table], recording: Recording, iterations: int
) -> dict[str, float]:
    """Medians of ``iterations`` iterations, in seconds."""
    plan, table = workload
    with tempfile.TemporaryDirectory() as logs, RunMemory(plan, "bench", Path(logs)) as node:
        for block in node.blocks.values():
            fill(block, recording, plan.steps)
        everyone = (plan.members.publisher, *plan.members.of(ACTORS))
        with members(node, everyone, Receiver) as boxes, _journal(Path(logs)) as journal:
            clock = SystemClock()
            coordinator = connect(plan, table, Ports.of(node, boxes, clock, journal))
            coordinator.begin()
            laps = list(_laps(node, coordinator, WARM_UP + iterations))[WARM_UP:]
    return {name: statistics.median(lap[name] for lap in laps) for name in laps[0]}


@contextmanager
def _journal(folder: Path) -> Iterator[Journal]:
    journal = Journal(folder / "journal.jsonl")
    try:
        yield journal
    finally:
        journal.close()


def _laps(node: RunMemory, coordinator: Run, count: int) -> Iterator[dict[str, float]]:
    """Serve the board; yields the learner's measures of each of ``count`` updates.

    Raises:
        DeadlineExceeded: no member sends anything.
    """
    board, told = node.board, 0
    while told < count:
        if not board.doorbell.wait(SECONDS):
            raise DeadlineExceeded(f"any of {coordinator.waits()}", SECONDS)
        for member in board.changed():
            coordinator.look(member)
            while (data := board.up(member).take()) is not None:
                message = decode_from_member(data)
                if isinstance(message, Failed):
                    raise SystemExit(message.trace)
                coordinator.receive(member, message)
                if member == board.members.publisher and isinstance(message, Done):
                    told += 1
                    yield message.metrics


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actors", type=int, default=16)
    parser.add_argument("--steps", type=int, default=512)
    parser.add_argument("--iterations", type=int, default=15)
    parser.add_argument("--recording", type=Path, required=True)
    parser.add_argument("--whole", action="store_true", help="store whole stacks of frames")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = ObjectSpec(MODEL_PARAM, (ArraySpec("params", (PARAMS,)),), options.actors + 1, 4)
    found = plan(options.actors, options.steps, model, once=not options.whole, more=(SAMPLED,))
    recording = Recording(options.recording)
    answer(measure(found, recording, options.iterations), ("numpy", "torch"))


if __name__ == "__main__":
    main()
