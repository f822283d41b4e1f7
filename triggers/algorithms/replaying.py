"""The table of algorithms that learn from replay (paper Table 3: off-policy, asynchronous)."""

from __future__ import annotations

from typing import Literal

from artos.actors.rollout import RolloutActor
from artos.buffer.samplers.patterns import Pattern, Prioritised, Uniform
from artos.scaling.actor_count import ActorsSetting, actors_of
from artos.spec import Learner, is_observation
from artos.workload import Workload
from triggers import ReplayTrigger, RoundTrigger
from triggers.table import Table

Replay = Literal["uniform", "prioritised"]

_ROW = ("actions", "rewards", "terminations", "truncations")


def pattern(replay: Replay, batch: int, n_step: int, gamma: float, alpha: float) -> Pattern:
    """How a batch of transitions is drawn."""
    if replay == "prioritised":
        return Prioritised(batch, alpha=alpha, n_step=n_step, gamma=gamma)
    return Uniform(batch, n_step=n_step, gamma=gamma)


def replay_rows(actor: RolloutActor, sample: Pattern, ratio: float, after: int) -> Table:
    """Learner and actors at work at the same time; each transition is drawn ``ratio`` times."""
    observed = [key.name for key in actor.spec.data_keys() if is_observation(key.name)]
    return {
        "learner.update": ReplayTrigger((*observed, *_ROW), sample, ratio=ratio, after=after),
        "actors.sample": RoundTrigger(),
    }


def replay_workload(
    name: str,
    actor: RolloutActor,
    learner: Learner,
    sample: Pattern,
    *,
    ratio: float,
    after: int,
    actors: ActorsSetting,
    steps: int,
    total_steps: int,
    replay_size: int,
) -> Workload:
    """A workload whose blocks hold ``replay_size`` transitions in all, the newest ones."""
    return Workload(
        name=name,
        actor=actor,
        learner=learner,
        triggers=replay_rows(actor, sample, ratio, after),
        actors=actors,
        steps=steps,
        total_steps=total_steps,
        capacity=rows_each(replay_size, actors, actor.envs),
        on_full="overwrite",
        settings={"ratio": ratio},
    )


def rows_each(replay_size: int, actors: ActorsSetting, envs: int) -> int:
    """Rows of each actor's block, so that all together hold ``replay_size`` transitions."""
    return max(1, -(-replay_size // (actors_of(actors).most * max(1, envs))))
