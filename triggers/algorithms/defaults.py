"""Defaults that depend on what the environment shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from artos.envs.spec import EnvSpec
from artos.policies.build import Policy
from artos.policies.recurrent import RecurrentActorCritic


def actor_critic(
    hidden: tuple[int, ...], recurrent: bool, memory: int
) -> Policy | Callable[[EnvSpec], Any]:
    """The policy of algorithms that learn a policy and its value, with or without memory."""
    if recurrent:
        return partial(RecurrentActorCritic, hidden=hidden, width=memory)
    return Policy(hidden=hidden)


def step_size(lr: float | None, spec: EnvSpec) -> float:
    """What was asked for, else 2.5e-4 where the environment shows images and 1e-3 elsewhere."""
    if lr is not None:
        return lr
    return 2.5e-4 if shows_images(spec) else 1e-3


def shows_images(spec: EnvSpec) -> bool:
    """Whether any part of an observation has more than one axis."""
    return any(len(part.shape) > 1 for part in spec.parts)
