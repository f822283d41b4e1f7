"""What the tables of algorithms share: the actor they are for, and what fits its rows."""

from __future__ import annotations

from functools import partial
from typing import Any

from artos.actors.asking import AskingActor
from artos.actors.rollout import RolloutActor
from artos.errors import Refused
from artos.learners.settings import ActorCriticSettings
from artos.policies.build import Policy
from artos.policies.inference import Inference
from artos.policies.inputs import can_be_scaled, picture
from artos.policies.recurrent import RecurrentActorCritic
from artos.specs.actor_count import ActorsSetting, actors_of

_OF_CENTRAL = {"splits": 1, "answer_batch": 1, "answer_wait": 0.0, "answer_device": "cpu"}
_NOT_CENTRAL = "{} is of servers that answer actors: set inference=central, or leave it out"
_SHARED = (
    "recurrent: policy and value share the CNN of {}'s pictures, and what the value learns must "
    "not change the policy: leave recurrent out, or run ppo"
)


def actor_critic(
    settings: ActorCriticSettings, correlation: float = 0.0, *, apart: bool = False
) -> RolloutActor:
    """The actor of algorithms that learn a policy and its value, with or without a memory.

    ``correlation`` is that of continuous actions' noise, from step to step. If they are ``apart``,
    nothing that the value learns changes the policy.

    Raises:
        Refused: a setting of central inference without that; ``normalize``, and an observation has
            no numbers but pictures; ``apart``, and a memory sees pictures.
    """
    shared: dict[str, Any] = {
        "hidden": settings.hidden, "normalize": settings.normalize, "correlation": correlation
    }  # fmt: skip
    policy: Any = Policy(**shared, apart=apart)
    if settings.recurrent:
        policy = partial(RecurrentActorCritic, width=settings.memory, **shared)
    given: dict[str, Any] = {
        "clip_rewards": settings.clip_rewards, "terminal_lives": settings.terminal_lives
    }  # fmt: skip
    if settings.inference == "central":
        server = Inference(
            settings.answer_batch, settings.answer_wait, device=settings.answer_device
        )
        actor: RolloutActor = AskingActor(
            settings.env, policy, settings.envs, splits=settings.splits, server=server, **given
        )
    else:
        if idle := [name for name in _OF_CENTRAL if getattr(settings, name) != _OF_CENTRAL[name]]:
            raise Refused([_NOT_CENTRAL.format(name) for name in idle])
        actor = RolloutActor(settings.env, policy, settings.envs, **given)
    require_numbers(actor, settings.normalize)
    if apart and settings.recurrent and any(picture(part) for part in actor.spec.features):
        raise Refused([_SHARED.format(actor.spec.name)])
    return actor


def require_numbers(actor: RolloutActor, normalize: bool) -> None:
    """Check that there is something to scale.

    Raises:
        Refused: an observation has no numbers but pictures.
    """
    if normalize and not can_be_scaled(actor.spec):
        env = actor.spec.name
        raise Refused([f"normalize scales numbers, but {env} shows none: leave normalize out"])


def lag_of(actors: ActorsSetting, n: int, wanted: int | None) -> int:
    """Versions that rows may be old where updates take ``n`` rounds: as ``wanted``.

    By default every actor may have a round under way and another one that waits for the learner.
    """
    return 2 * actors_of(actors).most // max(1, n) if wanted is None else wanted


def minibatches_of(rows: int, actors: int) -> int:
    """Into how many minibatches of 64 rows or a little more an update's rows divide.

    ``rows`` are those of one actor, so that all numbers of actors from ``actors`` on will do.
    """
    most = min(rows, rows * actors // 64)
    return max((n for n in range(1, most + 1) if rows % n == 0), default=1)
