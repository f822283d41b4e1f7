"""DQN whose learner and actors take turns, so that what is drawn depends on no one's pace."""

from __future__ import annotations

from dataclasses import replace

from artos import Workload
from artos.learners.settings import Inference, Replay
from triggers import ObjectKeyTrigger
from triggers.algorithms import dqn

ACTORS, ENVS, STEPS = 2, 2, 8
ROUND = ACTORS * ENVS * STEPS


def workload(
    replay: Replay = "uniform", total_steps: int = 40 * ROUND, actors: int = ACTORS,
    inference: Inference = "actor",
) -> Workload:  # fmt: skip
    """Each version is followed by a round of every actor, and each such round by an update."""
    base = dqn.workload(
        "CartPole-v1", actors, total_steps, envs=ACTORS * ENVS // actors, steps=STEPS, batch=ROUND,
        ratio=1.0, after=ROUND, sync=1, target_every=5, hidden=(16, 16), replay=replay,
        replay_size=8 * ROUND, inference=inference,
    )  # fmt: skip
    update = replace(base.triggers["learner.update"], slack=float(ROUND))
    table = {"learner.update": update, "actors.sample": ObjectKeyTrigger("model_param")}
    return replace(base, triggers=table)
