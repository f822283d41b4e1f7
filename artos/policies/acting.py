"""What a policy returns and what it is given: the protocol between actors and policies."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from artos.specs.bound import Bound
from artos.specs.keys import MASK_KEY, DataKey

if TYPE_CHECKING:
    from artos.envs.spec import EnvSpec
    from artos.specs.contracts import Played

Array = NDArray[Any]

VALUES = "values"
ACTOR_CRITIC: tuple[str, ...] = ("log_probs", VALUES)
"""Outputs of a policy that declares none."""

BOOTSTRAPS = "bootstraps"
"""Values of the following state where the next row does not hold them, else 0.

That is after a truncation and at the end of a round. They are written if the policy has ``values``
among its outputs, with the shape of these: ``DataKey("values", (2,))`` are those of two heads.
"""


@dataclass
class ActInfo:
    """What a policy may use in addition to the observations."""

    actor: int = 0
    """The number of the actor, from 0."""
    actors: int = 1
    """How many actors there are."""
    progress: float = 0.0
    """The share of the run's budget that is used, 0 to 1."""
    steps: int = 0
    """Environment steps of all actors so far."""
    greedy: bool = False
    """Asks for the best action instead of exploration."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """The recurrent state of each environment, (B, *shape) by name.

    Zeros where an episode begins, else what the last ``act`` returned under that name.
    """
    bound: Bound = field(default_factory=Bound)
    """The version of the weights, and the objects that the actor ``reads`` as arrays by name."""
    branch: Callable[..., list[Played]] | None = None
    """Continues an episode and puts everything back, see ``RolloutActor.continued``; None where
    that is not to be had: in a continuation, and where episodes are only evaluated or recorded.
    """
    learned_from: bool = True
    """Whether rows are learned from; False where episodes are only evaluated or recorded."""


class PolicyModule(Protocol):
    """A policy as users write it: a ``torch.nn.Module`` with these members.

    Both fields may be left out, or be properties of an instance. Learners that need more than
    ``act`` say so in their ``calls``, e.g. ``evaluate``.
    """

    outputs: tuple[str | DataKey, ...]
    """What ``act`` returns besides ``actions``, all of which becomes part of a row.

    A name stands for one float32 per environment, a ``DataKey`` for any shape and dtype.
    """
    state: tuple[DataKey, ...]
    """Recurrent state, which a row holds as it was before the step."""

    def act(self, obs: dict[str, Any], info: ActInfo) -> dict[str, Any]:
        """Tensors: ``actions`` (B, *shape) for observations (B, ...), outputs and new state."""


class BoundPolicy(Protocol):
    """What an actor process needs of a policy. Outputs are valid until the next call."""

    def bind(self, flat: NDArray[np.float32]) -> None:
        """Act with these parameters from now on, maybe in place: do not change ``flat``."""

    def act(self, obs: dict[str, Array], info: ActInfo) -> dict[str, Array]:
        """Actions (B, *shape), the policy's outputs and its new state for observations (B, …)."""

    def values(self, obs: dict[str, Array], info: ActInfo) -> NDArray[np.float32]:
        """Values that bootstrap episodes, (B, *shape); only asked for if they are an output."""


def output_keys(outputs: Iterable[str | DataKey]) -> tuple[DataKey, ...]:
    """The data keys of a policy's outputs."""
    return tuple(DataKey(each) if isinstance(each, str) else each for each in outputs)


def blank(spec: EnvSpec, batch: int) -> dict[str, Array]:
    """Zeros (or the lower bound) of the right shapes and dtypes, by data key; nothing is masked."""
    found = {}
    for part in spec.parts:
        if part.name == MASK_KEY:
            found[part.name] = np.ones((batch, *part.shape), bool)
        else:
            fill = part.low if part.low is not None else 0
            found[part.name] = np.full((batch, *part.value_shape), fill, part.dtype)
    return found


class Seen(NamedTuple):
    """How a policy of ours takes observations; empty for a policy of the user's own."""

    networks: tuple[tuple[str, str], ...] = ()
    """Data keys, and a description of the network that each goes through."""
    doubts: tuple[str, ...] = ()
    """What is odd about that."""


@dataclass(frozen=True)
class Declared:
    """What a policy adds to a row: the keys of its outputs and of its recurrent state."""

    outputs: tuple[DataKey, ...] = output_keys(ACTOR_CRITIC)
    state: tuple[DataKey, ...] = ()

    @property
    def bootstraps(self) -> tuple[DataKey, ...]:
        """The key of the bootstraps of its values, if it has any."""
        values = (key for key in self.outputs if key.name == VALUES)
        return tuple(DataKey(BOOTSTRAPS, key.shape) for key in values)

    @classmethod
    def by(cls, policy: Any, build: Callable[[], Any]) -> Declared:
        """What a policy, a class of modules, or a function that builds one declares.

        A function cannot declare anything, and a class cannot declare what depends on its
        arguments: then the module that they build is asked.
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
