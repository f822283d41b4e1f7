"""What a learner is told when it is set up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.learners.publisher import Publisher
from artos.learners.replicas import ALONE, Replicas
from artos.runs.plan import Plan

if TYPE_CHECKING:
    from artos.envs.spec import EnvSpec


@dataclass(frozen=True)
class LearnerContext:
    """One learner's place in a run: the plan, the network, a seed, the actors' blocks.

    At registration, when nothing runs yet, there are no blocks, and the device is the CPU.
    """

    plan: Plan
    module: Any
    """What the actor's ``build_module`` made: a ``torch.nn.Module`` for the actors built in."""
    seed: int
    threads: int = 1
    blocks: Mapping[int, ActorBlock] = field(default_factory=dict)
    """The actors' data blocks, for samplers over all of the replay buffer."""
    publish: Publisher = field(default_factory=Publisher)
    """Is called with the name and the value of an object that the learner has beside the weights.
    """
    device: str = "cpu"
    """Where the learner computes, ``"cpu"`` or ``"cuda:0"``."""
    waits: Callable[[str], None] = lambda _: None
    """Is told what the learner waits for and cannot help, and "" when that is over: then its time
    to answer begins again."""
    stepped: Callable[[], None] = lambda: None
    """Is to be called after each step of an update that takes long."""
    data: Mapping[str, ActorBlock] = field(default_factory=dict)
    """The blocks of data sets, by name; they are full, and nobody writes them."""
    replicas: Replicas = ALONE
    """The others that make the same calls in processes of their own, if there are any."""
    state_of: Callable[[str], dict[str, NDArray[Any]]] = lambda _: {}
    """Is called with the name of another learner: copies of all that makes up its newest version.

    That is what its ``live`` returns, so weights with the moments of their optimiser, all of one
    version; empty before its first one.
    """

    @property
    def spec(self) -> EnvSpec:
        """Facts about the environment, e.g. to build further networks."""
        from artos.envs.spec import EnvSpec  # noqa: PLC0415  # gymnasium, which heads do without

        found = msgspec.convert(self.plan.env_spec, EnvSpec, strict=False)
        return found.seats.get(self.plan.learner, found)
