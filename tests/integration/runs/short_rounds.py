"""The evolution strategies of the docs, with short rounds in which the first actor dies."""

from __future__ import annotations

import os
from typing import Any

from my_es import KEYS, Candidates, Evolution

from artos import Episodes, Workload
from triggers import DataKeyTrigger, RoundTrigger

STEPS = 60


class Mortal(Candidates):
    """It fails before a round, then within one, then its process ends once it has written one.

    A replay must not come to the first two of these rounds: it would fail, too.
    """

    def setup(self, context: Any) -> None:
        super().setup(context)
        self.context, self.rounds = context, 0

    def _comes_to(self, life: int) -> bool:
        context = self.context
        return bool(context.actor == 0 and context.incarnation == life and self.rounds == 1 + life)

    def sample(self, start: int, rows: int, call: Any) -> Any:
        self.rounds += 1
        if self._comes_to(1):
            raise RuntimeError("before")
        found = super().sample(start, min(rows, 20 + self.rounds % 7), call)
        if self._comes_to(2):
            raise RuntimeError("within")
        return found

    def episodes(self) -> tuple[list[float], list[int]]:
        if self._comes_to(3) and not self.context.replays:
            os._exit(1)
        return super().episodes()


def workload(ahead: int = 1, total_steps: int = 0) -> Workload:
    return Workload(
        name="short",
        actor=Mortal("CartPole-v1", 4, 0.5),
        learner=Evolution(1.0, 0.5),
        triggers={
            "learner.update": DataKeyTrigger(KEYS, sample=Episodes(8)),
            "actors.sample": RoundTrigger(ahead=ahead),
        },
        actors=2, steps=STEPS, capacity=4 * STEPS, total_steps=total_steps,
    )  # fmt: skip
