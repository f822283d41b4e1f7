"""An environment with episodes of varying length, and an algorithm that learns from whole ones.

Its book has of each episode: actor, environment, first row, identity of the environment, how many
observations that had shown before, rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from counting import MOST, Bookkeeper, Counter, Walker

from artos import Episodes, Workload
from triggers import DataKeyTrigger, RoundTrigger

STEPS, N = 16, 4
LONGER = (16, 32, 48)
"""Rows of all episodes but the first, which has 5: so none ends where a round ends."""


class Uneven(Counter):
    """Counts on from episode to episode."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.episode = -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episode += 1
        return super().reset(seed=seed, options=options)

    def step(self, action: int) -> Any:
        *found, info = super().step(action)
        length = LONGER[self.episode % len(LONGER)] if self.episode else 5
        found[2:] = self.steps == length, False
        return *found, info


def make(seed: int) -> Uneven:
    return Uneven(seed)


class Reader(Bookkeeper):
    """Sees that an episode is one, from its first row to its last."""

    def setup(self, context: Any) -> None:
        super().setup(context)
        self.book = np.full((MOST // 8, 6), -1, np.int64)

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        names = ("observations", "terminations", "ages", "policy_version")
        for claim, *rows in zip(batch.claims, *map(batch.episodes, names), strict=True):
            shown, over, ages, versions = rows
            (identity, first), length = shown[0], len(shown)
            assert (shown[:, 0] == identity).all()
            assert (shown[:, 1] == first + np.arange(length)).all()
            assert (ages == np.arange(length)).all()
            assert over.tolist() == [False] * (length - 1) + [True]
            assert (np.diff(versions) >= 0).all()
            self.book[self.count[0]] = claim.actor, claim.env, claim.start, identity, first, length
            self.count += 1
        self.fresh = True
        return {"episodes": float(self.count[0])}


def workload(actors: int = 2, total_steps: int = 6_000) -> Workload:
    return Workload(
        name="whole",
        actor=Walker("whole:make", envs=2),
        learner=Reader(),
        triggers={
            "learner.update": DataKeyTrigger(
                ("observations", "terminations", "ages"), sample=Episodes(N)
            ),
            "actors.sample": RoundTrigger(ahead=1),
        },
        actors=actors, steps=STEPS, capacity=160, total_steps=total_steps,
    )  # fmt: skip
