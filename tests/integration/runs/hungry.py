"""`counting.py`, whose actors, learner and trigger eat all memory there is when told to, once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import counting
import numpy as np

from artos import Workload
from triggers import DataKeyTrigger


def eat(who: str) -> None:
    """Told by a file, which is gone when the eating begins."""
    try:
        Path(f"eat-{who}").unlink()
    except FileNotFoundError:  # nobody was told, or another one was faster
        return
    eaten = []
    while True:
        eaten.append(np.ones(1 << 20))


class Walker(counting.Walker):
    def sample(self, start: int, rows: int, call: Any) -> Any:
        eat("actor")
        return super().sample(start, rows, call)


class Bookkeeper(counting.Bookkeeper):
    def update(self, batch: Any, call: Any) -> dict[str, float]:
        eat("learner")
        return super().update(batch, call)


class FullBatch(DataKeyTrigger):
    """Checked in the supervisor."""

    def check(self, event: Any, now: float) -> Any:
        eat("supervisor")
        return super().check(event, now)


def workload(actors: int = 2, total_steps: int = 6000, steps: int = counting.STEPS) -> Workload:
    actor = Walker("counting:make", envs=1)
    keys = tuple(key.name for key in actor.data_keys())
    plain = counting.workload(actors, total_steps)
    update = FullBatch(keys, n=actors, size=steps, max_lag=1)
    return replace(
        plain, name="hungry", actor=actor, learner=Bookkeeper(), steps=steps,
        triggers=plain.triggers | {"learner.update": update},
    )  # fmt: skip
