"""What a policy gives and what it is told: the protocol between actors and policies."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from artos.spec import DataKey

Array = NDArray[Any]

VALUES = "values"
ACTOR_CRITIC: tuple[str, ...] = ("log_probs", VALUES)
"""Outputs of a policy that declares none."""

BOOTSTRAPS = DataKey("bootstraps")
"""Value of the following state where the next row does not hold it, else 0.

That is after a truncation and at the end of a round. It is written if the policy gives ``values``.
"""


@dataclass
class ActInfo:
    """What a policy may look at beside the observations.

    ``actor`` is the number of the actor, from 0, out of ``actors``; ``progress`` the share of the
    run's budget that is used, 0 to 1. ``greedy`` asks for the best action instead of exploration.
    """

    actor: int = 0
    actors: int = 1
    progress: float = 0.0
    greedy: bool = False


class PolicyModule(Protocol):
    """A policy as users write it: a ``torch.nn.Module`` with these members.

    ``outputs`` names what ``act`` returns beside ``actions``, all of which becomes part of a row:
    names stand for one float32 per environment, ``DataKey`` for any shape and dtype. Learners that
    need more than ``act`` say so in ``calls``, e.g. ``evaluate``.
    """

    outputs: tuple[str | DataKey, ...]

    def act(self, obs: dict[str, Any], info: ActInfo) -> dict[str, Any]:
        """Tensors: ``actions`` (B, *shape) for observations (B, ...), and each output (B, ...)."""


class BoundPolicy(Protocol):
    """What an actor process needs of a policy. Outputs are valid until the next call."""

    def bind(self, flat: NDArray[np.float32]) -> None:
        """Act with these parameters from now on, maybe in place: do not change ``flat``."""

    def act(self, obs: dict[str, Array], info: ActInfo) -> dict[str, Array]:
        """Actions (B, *shape) and the policy's outputs for observations (B, …)."""

    def values(self, obs: dict[str, Array]) -> NDArray[np.float32]:
        """Values (B,) float32 that bootstrap episodes; only asked for if they are an output."""


def output_keys(outputs: Iterable[str | DataKey]) -> tuple[DataKey, ...]:
    """The data keys of a policy's outputs."""
    return tuple(DataKey(each) if isinstance(each, str) else each for each in outputs)


def declared_outputs(policy: Any, build: Callable[[], Any]) -> tuple[DataKey, ...]:
    """Outputs of a policy, of a class of modules, or of a function that builds one.

    A function cannot declare anything, so what it builds is asked.
    """
    while isinstance(policy, functools.partial):
        policy = policy.func
    if not hasattr(policy, "outputs") and inspect.isroutine(policy):
        policy = build()
    return output_keys(getattr(policy, "outputs", ACTOR_CRITIC))
