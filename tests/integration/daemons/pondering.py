"""A user's workload whose updates take as long as its rounds: slots are idle meanwhile."""

from __future__ import annotations

import time
from typing import Any

from counting import STEPS, Bookkeeper, Walker

from artos import Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger

UPDATE_SECONDS = 0.1


class Ponderer(Bookkeeper):
    """Waits before it learns, as for a device far away: it takes no CPU from anybody."""

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        time.sleep(UPDATE_SECONDS)
        return super().update(batch, call)


def workload(actors: int = 2, total_steps: int = 6000) -> Workload:
    actor = Walker("counting:make", envs=1)
    keys = tuple(key.name for key in actor.data_keys())
    return Workload(
        name="pondering",
        actor=actor,
        learner=Ponderer(),
        triggers={
            "learner.update": DataKeyTrigger(keys, n=actors, size=STEPS),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors,
        steps=STEPS,
        total_steps=total_steps,
    )
