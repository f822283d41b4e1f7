"""A user's algorithm without PyTorch: small processes, and a book of every row learned from.

Each row says who sampled it (a seed, so one life of one actor), its number in that life, the next
draw of that life's random stream, when it was sampled and on which CPUs the process might run. A
stream that goes on bit for bit is one that equals ``numpy.random.default_rng(seed)`` to the end.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from artos import Actor, DataKey, Learner, Workload
from artos.specs.actor_count import ActorsSetting
from triggers import DataKeyTrigger, ObjectKeyTrigger

ROUND, MOST = 16, 8_000
LIFE, COUNT, DRAW, WHEN, CPU = range(5)
SLOW, HELD, HOLDING = Path("slow"), Path("held"), Path("holding")
"""While ``slow`` is there a step takes milliseconds; while ``held`` is there no update ends, which
``holding`` shows."""


class Counting(Actor):
    """Counts, draws, and looks at the clock."""

    def data_keys(self) -> Sequence[DataKey]:
        return (DataKey("observations", (5,), "int64"),)

    def setup(self, context: Any) -> None:
        self.block, self.life, self.count = context.block, context.seed, 0
        self.rng = np.random.default_rng(context.seed)
        print(f"life {self.life} of actor {context.actor}", flush=True)

    def bind(self, params: Any, version: int) -> None:
        del params
        self.version = version

    def sample(self, start: int, rows: int, call: Any) -> dict[str, float]:
        arrays, capacity, cpu = self.block.arrays, self.block.spec.capacity, only_cpu()
        for step in range(start, start + rows):
            if SLOW.exists():
                time.sleep(0.002)
            # Not the monotonic clock: CRIU lets that go on from where the image was taken.
            row = (self.life, self.count, self.rng.integers(1 << 60), time.time_ns(), cpu)
            arrays["observations"][step % capacity] = row
            arrays["policy_version"][step % capacity] = self.version
            self.count += 1
        return {}


def only_cpu() -> int:
    """The only CPU this process may run on, as the kernel says; -1 if there are several."""
    status = Path("/proc/self/status").read_text().splitlines()
    cpus = next(x.split()[1] for x in status if x.startswith("Cpus_allowed_list:"))
    return int(cpus) if cpus.isdecimal() else -1


class Bookkeeper(Learner):
    """Learns nothing; the book is published with the weights, so it survives whatever they do."""

    def setup(self, context: Any) -> None:
        del context
        self.params = np.zeros(2, np.float32)
        self.book = np.full((MOST, 7), -1, np.int64)
        self.count = np.zeros(1, np.int64)

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        del call
        while HELD.exists():
            HOLDING.touch()
            time.sleep(0.005)
        HOLDING.unlink(missing_ok=True)
        for claim, rows in zip(batch.claims, batch.gather("observations"), strict=True):
            for step, row in zip(range(claim.start, claim.stop), rows, strict=True):
                self.book[self.count[0]] = (claim.actor, step, *row[0])
                self.count += 1
        self.fresh = True
        return {"rows": float(self.count[0])}

    def live(self) -> dict[str, Any]:
        return {"params": self.params, "learner.book": self.book, "learner.count": self.count}

    def layout(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        return (("nothing", (2,)),)


def assemble(actor: Any, actors: Any, total_steps: int, max_lag: int) -> Workload:
    return Workload(
        name="counted",
        actor=actor,
        learner=Bookkeeper(),
        triggers={
            "learner.update": DataKeyTrigger(("observations",), size=ROUND, max_lag=max_lag),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors,
        steps=ROUND,
        total_steps=total_steps,
    )


def workload(actors: ActorsSetting = 2, total_steps: int = 320, max_lag: int = 0) -> Workload:
    return assemble(Counting(), actors, total_steps, max_lag)
