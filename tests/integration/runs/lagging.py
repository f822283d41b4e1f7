"""PPO with tables that let actors run ahead of the learner by some versions, or by none."""

from __future__ import annotations

from dataclasses import replace

from artos import Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger, TransferTrigger
from triggers.algorithms import ppo
from triggers.table import Table

STEPS = 16


def workload(table: str = "sync", lag: int = 0, actors: int = 2, rounds: int = 12) -> Workload:
    """The paper's on-policy synchronisation (Table 3), or an asynchronous table."""
    total = rounds * actors * STEPS * 2
    base = ppo.workload(
        "CartPole-v1", actors, total, envs=2, steps=STEPS, minibatches=2, hidden=(8, 8)
    )
    keys = tuple(key.name for key in base.actor.data_keys())
    return replace(base, triggers=_tables(keys, lag, actors)[table])


def _tables(keys: tuple[str, ...], lag: int, actors: int) -> dict[str, Table]:
    whole, sample = {"size": STEPS, "max_lag": lag}, {"actors.sample": ObjectKeyTrigger()}
    apart: Table = {"actors.sync": ObjectKeyTrigger("model_param"), **sample}
    return {
        "sync": {"learner.update": DataKeyTrigger(keys, size=STEPS), **apart},
        "async": {"learner.update": DataKeyTrigger(keys, **whole), **sample},
        "as many as there are": {
            "learner.update": DataKeyTrigger(keys, n=actors, **whole),
            **apart,
        },
        "transfers": {
            "transfer": TransferTrigger((keys[-2:], keys[:-2]), size=STEPS // 4),
            "learner.update": DataKeyTrigger(keys, **whole),
            **sample,
        },
    }
