"""What the tables of algorithms share: the actor they are for, and what fits its rows."""

from __future__ import annotations

from functools import partial
from typing import Any

from artos.actors.rollout import RolloutActor
from artos.errors import Refused
from artos.learners.settings import ActorCriticSettings
from artos.policies.build import Policy
from artos.policies.inputs import can_be_scaled
from artos.policies.recurrent import RecurrentActorCritic


def actor_critic(settings: ActorCriticSettings, correlation: float = 0.0) -> RolloutActor:
    """The actor of algorithms that learn a policy and its value, with or without a memory.

    ``correlation`` is that of continuous actions' noise, from step to step.

    Raises:
        Refused: ``normalize``, and an observation has no numbers but pictures.
    """
    shared: dict[str, Any] = {
        "hidden": settings.hidden, "normalize": settings.normalize, "correlation": correlation
    }  # fmt: skip
    policy: Any = Policy(**shared)
    if settings.recurrent:
        policy = partial(RecurrentActorCritic, width=settings.memory, **shared)
    actor = RolloutActor(
        settings.env, policy, settings.envs, clip_rewards=settings.clip_rewards,
        terminal_lives=settings.terminal_lives,
    )  # fmt: skip
    require_numbers(actor, settings.normalize)
    return actor


def require_numbers(actor: RolloutActor, normalize: bool) -> None:
    """Check that there is something to scale.

    Raises:
        Refused: an observation has no numbers but pictures.
    """
    if normalize and not can_be_scaled(actor.spec):
        env = actor.spec.name
        raise Refused([f"normalize scales numbers, but {env} shows none: leave normalize out"])


def minibatches_of(rows: int, actors: int) -> int:
    """Into how many minibatches of 64 rows or a little more an update's rows divide.

    ``rows`` are those of one actor, so that all numbers of actors from ``actors`` on will do.
    """
    most = min(rows, rows * actors // 64)
    return max((n for n in range(1, most + 1) if rows % n == 0), default=1)
