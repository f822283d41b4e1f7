"""Defaults that depend on what the environment shows."""

from __future__ import annotations

from functools import partial
from typing import Any

from artos.actors.rollout import RolloutActor
from artos.envs.spec import EnvSpec
from artos.errors import Refused
from artos.policies.build import Policy
from artos.policies.inputs import can_be_scaled
from artos.policies.recurrent import RecurrentActorCritic


def actor_critic(
    env: str,
    envs: int,
    *,
    hidden: tuple[int, ...],
    recurrent: bool,
    memory: int,
    normalize: bool,
    clip_rewards: bool | None,
    terminal_lives: bool,
    correlation: float = 0.0,
) -> RolloutActor:
    """The actor of algorithms that learn a policy and its value, with or without a memory.

    Raises:
        Refused: ``normalize``, and an observation has no numbers but pictures.
    """
    policy: Any = Policy(hidden=hidden, normalize=normalize, correlation=correlation)
    if recurrent:
        kind = RecurrentActorCritic
        policy = partial(
            kind, hidden=hidden, width=memory, normalize=normalize, correlation=correlation
        )
    actor = RolloutActor(
        env, policy, envs, clip_rewards=clip_rewards, terminal_lives=terminal_lives
    )
    require_numbers(actor, normalize)
    return actor


def require_numbers(actor: RolloutActor, normalize: bool) -> None:
    """Check that there is something to scale.

    Raises:
        Refused: an observation has no numbers but pictures.
    """
    if normalize and not can_be_scaled(actor.spec):
        env = actor.spec.name
        raise Refused([f"normalize scales numbers, but {env} shows none: leave normalize out"])


def step_size(lr: float | None, spec: EnvSpec) -> float:
    """What was asked for, else 2.5e-4 where the environment shows images and 1e-3 elsewhere."""
    if lr is not None:
        return lr
    return 2.5e-4 if shows_images(spec) else 1e-3


def shows_images(spec: EnvSpec) -> bool:
    """Whether any part of an observation has more than one axis."""
    return any(len(part.shape) > 1 for part in spec.parts)


def ppo_defaults(spec: EnvSpec) -> dict[str, Any]:
    """Of PPO: for images, for continuous actions, and for the rest.

    Those for continuous actions are Stable-Baselines3's, with its 2,048 rows from eight
    environments. ``minibatches`` None means ``minibatches_of`` the rows.
    """
    usual = {
        "steps": 128,
        "lr": 1e-3,
        "anneal": True,
        "epochs": 4,
        "minibatches": 4,
        "clip": 0.2,
        "ent_coef": 0.01,
    }
    if shows_images(spec):
        return usual | {"lr": 2.5e-4, "clip": 0.1}
    if spec.actions.kind == "box":
        return usual | {
            "steps": 256,
            "lr": 3e-4,
            "anneal": False,
            "epochs": 10,
            "minibatches": None,
            "ent_coef": 0.0,
        }
    return usual


def minibatches_of(rows: int, actors: int) -> int:
    """Into how many minibatches of 64 rows or a little more an update's rows divide.

    ``rows`` are those of one actor, so that all numbers of actors from ``actors`` on will do.
    """
    most = min(rows, rows * actors // 64)
    return max((n for n in range(1, most + 1) if rows % n == 0), default=1)
