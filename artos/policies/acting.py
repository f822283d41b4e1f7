"""What a policy gives and what it is told: the protocol between actors and policies."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

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
    run's budget that is used, 0 to 1, ``steps`` the environment steps of all actors until then.
    ``greedy`` asks for the best action instead of exploration.
    ``state`` is the recurrent state of each environment, (B, *shape) by name: zeros where an
    episode begins, else what the last ``act`` returned under that name.
    """

    actor: int = 0
    actors: int = 1
    progress: float = 0.0
    steps: int = 0
    greedy: bool = False
    state: Mapping[str, Any] = field(default_factory=dict)


class PolicyModule(Protocol):
    """A policy as users write it: a ``torch.nn.Module`` with these members.

    ``outputs`` names what ``act`` returns beside ``actions``, all of which becomes part of a row:
    names stand for one float32 per environment, ``DataKey`` for any shape and dtype. ``state``
    declares recurrent state, which a row holds as it was before the step. Both may be left out, and
    be properties of an instance. Learners that need more than ``act`` say so in ``calls``, e.g.
    ``evaluate``.
    """

    outputs: tuple[str | DataKey, ...]
    state: tuple[DataKey, ...]

    def act(self, obs: dict[str, Any], info: ActInfo) -> dict[str, Any]:
        """Tensors: ``actions`` (B, *shape) for observations (B, ...), outputs and new state."""


class BoundPolicy(Protocol):
    """What an actor process needs of a policy. Outputs are valid until the next call."""

    def bind(self, flat: NDArray[np.float32]) -> None:
        """Act with these parameters from now on, maybe in place: do not change ``flat``."""

    def act(self, obs: dict[str, Array], info: ActInfo) -> dict[str, Array]:
        """Actions (B, *shape), the policy's outputs and its new state for observations (B, …)."""

    def values(self, obs: dict[str, Array], info: ActInfo) -> NDArray[np.float32]:
        """Values (B,) float32 that bootstrap episodes; only asked for if they are an output."""


def output_keys(outputs: Iterable[str | DataKey]) -> tuple[DataKey, ...]:
    """The data keys of a policy's outputs."""
    return tuple(DataKey(each) if isinstance(each, str) else each for each in outputs)


class Seen(NamedTuple):
    """How a policy of ours takes observations, in words: ``networks`` by data key, and what is odd.

    Both are empty for a policy of the user's own.
    """

    networks: tuple[tuple[str, str], ...] = ()
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Declared:
    """What a policy adds to a row: the keys of its outputs and of its recurrent state."""

    outputs: tuple[DataKey, ...] = output_keys(ACTOR_CRITIC)
    state: tuple[DataKey, ...] = ()

    @classmethod
    def by(cls, policy: Any, build: Callable[[], Any]) -> Declared:
        """What a policy, a class of modules, or a function that builds one declares.

        A function cannot declare anything, and a class not what depends on its arguments, so what
        they build is asked.
        """
        while isinstance(policy, functools.partial):
            policy = policy.func
        asked = [getattr(policy, name, None) for name in ("outputs", "state")]
        if any(isinstance(each, property) for each in asked) or (
            inspect.isroutine(policy) and asked[0] is None
        ):
            policy = build()
        outputs, state = getattr(policy, "outputs", ACTOR_CRITIC), getattr(policy, "state", ())
        return cls(output_keys(outputs), output_keys(state))
