"""PPO as a user may extend it: keeps book of the rows of every gradient inside what it publishes.

A line ``METHOD ACTOR START`` of the file ``deaths`` has the learner kill itself once, at the end of
that method on claims that begin with that one, which for ``update`` is just before it is published.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from artos import PipelinedPPO, Workload
from triggers.algorithms.pipelines import Pipeline, learner_rows
from triggers.algorithms.ppo import workload as ppo

STEPS, MOST = 16, 4096
DEATHS = Path("deaths")


class Bookkeeper(PipelinedPPO):
    """Counts how often each row of each actor was part of a gradient."""

    def setup(self, context: Any) -> None:
        super().setup(context)
        self.book = np.zeros((context.plan.actors, MOST), np.int64)

    def live(self) -> Any:
        return {**super().live(), "learner.book": self.book}

    def _seen(self, batch: Any, rows: Any, index: Any) -> Any:
        _, length, envs = batch.shape
        claims, steps = np.divmod(index // envs, length)
        for claim, step in zip(claims, steps, strict=True):
            self.book[batch.claims[claim].actor, batch.claims[claim].start + step] += 1
        return super()._seen(batch, rows, index)


def mortal(name: str) -> Callable[[Any, Any, Any], Any]:
    """The method of PPO, after which the learner may die."""

    def method(self: Any, batch: Any, call: Any) -> Any:
        result = getattr(PipelinedPPO, name)(self, batch, call)
        first = batch.claims[0]
        line = f"{name} {first.actor} {first.start}"
        lines = DEATHS.read_text().splitlines() if DEATHS.exists() else []
        if line in lines:
            DEATHS.write_text("\n".join(each for each in lines if each != line))
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return method


for name in ("preprocess", "accumulate", "first_pass", "update"):
    setattr(Bookkeeper, name, mortal(name))


def workload(
    actors: int = 3, total_steps: int = 3 * STEPS * 8, *, pipeline: Pipeline = "none",
    max_lag: int = 0, epochs: int = 2, minibatches: int = 3, n: int = 1,
) -> Workload:  # fmt: skip
    """PPO on CartPole with one environment an actor, so that a row of an actor is a row."""
    base = ppo(
        "CartPole-v1", actors, total_steps, envs=1, steps=STEPS, max_lag=max_lag,
        pipeline=pipeline, epochs=epochs, minibatches=minibatches, hidden=(16,),
    )  # fmt: skip
    learner = Bookkeeper(
        lr=1e-3, epochs=epochs, minibatches=minibatches, gamma=0.99, lam=0.95, clip=0.2
    )
    keys = base.triggers["learner.update"].keys
    rows = learner_rows(pipeline, keys, STEPS, n, max_lag)
    table = {**rows, "actors.sample": base.triggers["actors.sample"]}
    return replace(base, name="book", learner=learner, triggers=table)
