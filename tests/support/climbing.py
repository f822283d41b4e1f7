"""Environments whose level is set while the run goes, and a learner that keeps book of it.

Its book has (actor, step, configuration of the row, level that the episode was reset with).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from counting import Bookkeeper, Counter, Walker
from counting import workload as counting
from gymnasium.wrappers import TimeLimit

from artos import Changeable, Workload
from triggers import CountTrigger, Once, SetTrigger


class Climb(Counter):
    """Shows (the level that it was reset with, how many observations it has shown)."""

    metadata = {"settable": [Changeable("level", ge=0, le=9)]}  # noqa: RUF012

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.level = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.identity = self.level
        return super().reset(seed=seed, options=options)


def make(seed: int) -> Any:
    return TimeLimit(Climb(seed), 60)


class Climber(Bookkeeper):
    """Writes down of each row what it says of its configuration."""

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        shown, numbers = batch.gather("observations"), batch.gather("configuration")
        for claim, rows, known in zip(batch.claims, shown, numbers, strict=True):
            for step, row, number in zip(range(claim.start, claim.stop), rows, known, strict=True):
                self.book[self.count[0]] = (claim.actor, step, number[0], row[0][0])
                self.count += 1
        self.fresh = True
        newest = float(numbers.max())
        return {"rows": float(self.count[0]), "newest": newest, "configuration": call.configuration}


def workload(
    actors: int = 2, total_steps: int = 6000, episodes: int = 4, checkpoint: Any = "model"
) -> Workload:
    made = counting(actors, total_steps)
    actor = Walker("climbing:make", envs=1)
    keys = tuple(key.name for key in actor.data_keys())
    rises = SetTrigger(Once(CountTrigger(episodes=episodes)), 5)
    update = replace(made.triggers["learner.update"], keys=keys)
    triggers = {**made.triggers, "learner.update": update, "set.env.level": rises}
    return replace(
        made, name="climbing", actor=actor, learner=Climber(), triggers=triggers,
        checkpoint=checkpoint,
    )  # fmt: skip


def assert_true(book: np.ndarray[Any, Any], lines: list[dict[str, Any]]) -> None:
    """Every row was made at the level that its configuration says, by the journal."""
    levels = {line["configuration"]: line["set"]["env.level"] for line in lines if "set" in line}
    levels[0] = 0
    said = {(int(number), int(level)) for _, _, number, level in book}
    assert said <= {*levels.items()}, (said, levels)
    for actor in {*book[:, 0].tolist()}:
        numbers = book[book[:, 0] == actor][:, 2]
        assert (np.diff(numbers) >= 0).all(), "no episode begins in an older configuration"
