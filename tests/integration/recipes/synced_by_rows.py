"""A2C from ``my_algo.py`` whose actors take new weights by rows, not by rounds."""

from dataclasses import replace

from my_algo import KEYS, workload

from artos import Workload
from triggers import DataKeyTrigger, EveryNRows, ObjectKeyTrigger


def counted(n: int = 512) -> Workload:
    """Actors pull new weights with every ``n`` rows that have arrived."""
    base = workload(total_steps=4_096)
    table = {
        "learner.update": DataKeyTrigger(KEYS, size=base.steps),
        "actors.sync": EveryNRows(n),
        "actors.sample": ObjectKeyTrigger("model_param"),
    }
    return replace(base, name="a2c-counted", triggers=table)
