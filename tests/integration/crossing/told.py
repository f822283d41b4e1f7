"""The built-in algorithms, whose actors and learners write down what they store and are given."""

from __future__ import annotations

import dataclasses
import importlib
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from artos import Workload
from artos.actors.context import ActorContext
from artos.actors.rollout import RolloutActor
from artos.buffer.samplers.drawn_batch import DrawnBatch
from artos.envs.spec import CHOSEN
from triggers.algorithms import BUILT_IN

FOLDER = "ARTOS_TEST_TOLD"
"""The environment variable that says where to."""


def tell(who: str, **facts: Any) -> None:
    """Append to the file of a member."""
    with (Path(os.environ[FOLDER]) / who).open("ab") as file:
        pickle.dump(facts, file)


def told(folder: Path, who: str) -> list[dict[str, Any]]:
    """All that a member has written."""
    found = []
    with (folder / who).open("rb") as file:
        while file.peek(1):
            found.append(pickle.load(file))
    return found


class TellingActor(RolloutActor):
    """Tells its seed, its parameters, the rows of its block, and the episodes it reports."""

    def setup(self, context: ActorContext) -> None:
        self._who = f"actor-{context.actor}"
        super().setup(context)
        vector = self._stepper.env
        mode, chosen = vector.metadata["autoreset_mode"], CHOSEN in vector.metadata
        twice = self._stepper.spec.skips_rows and mode.name == "DISABLED" and not chosen
        tell(self._who, seed=context.seed, twice=twice)

    def bind(self, params: Any, version: int) -> None:
        super().bind(params, version)
        tell(self._who, version=version, params=np.array(params))

    def sample(self, start: int, rows: int, call: Any) -> dict[str, float]:
        seconds = super().sample(start, rows, call)
        at = np.arange(start, start + rows) % self._block.spec.capacity
        tell(self._who, start=start, rows={n: a[at] for n, a in self._block.arrays.items()})
        return seconds

    def episodes(self) -> Any:
        returns, lengths = super().episodes()
        tell(self._who, returns=returns, lengths=lengths)
        return returns, lengths


class TellingLearner:
    """Tells the rows that it is given."""

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        if isinstance(batch, DrawnBatch):
            tell("learner", drawn={n: np.array(a) for n, a in batch.items()})
        else:
            claims = [(claim.actor, claim.start) for claim in batch.claims]
            rows = {n: np.array(batch.gather(n)) for n in batch.names}
            tell("learner", claims=claims, rows=rows)
        return super().update(batch, call)  # type: ignore[misc, no-any-return]


def workload(
    algorithm: str, env: str, actors: int = 2, total_steps: int = 128, recurrent: bool = False
) -> Workload:
    """A small run of a built-in algorithm."""
    settings: dict[str, Any] = {"envs": 2, "steps": 16, "hidden": (16, 16)}
    if algorithm in ("dqn", "rainbow", "apex", "r2d2", "sac", "td3", "ddpg", "d4pg", "crossq"):
        settings |= {"after": 96, "batch": 16, "steps": 8, "n_step": 2, "gamma": 0.9}
    if algorithm in ("ppo", "trpo", "appo", "rnd"):
        settings |= {"epochs": 1, "minibatches": 1}
    if recurrent:
        settings |= {"recurrent": True, "memory": 8}
    module = importlib.import_module(BUILT_IN[algorithm].partition(":")[0])
    made: Workload = module.workload(env, actors, total_steps, **settings)
    made.actor.__class__ = TellingActor
    kind = type(made.learner)
    made.learner.__class__ = type(f"Telling{kind.__name__}", (TellingLearner, kind), {})
    return dataclasses.replace(made, evaluate_every=2, evaluation_episodes=3)
