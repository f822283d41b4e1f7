"""What a learner is told when it is set up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from artos.buffer.actor_block import ActorBlock
from artos.learners.publisher import Publisher
from artos.plan import Plan


@dataclass(frozen=True)
class LearnerContext:
    """One learner's place in a run: the plan, the network, a seed, the actors' blocks.

    ``module`` is what the actor's ``build_module`` made: a ``torch.nn.Module`` for the actors that
    are built in. ``blocks`` are the actors' data blocks, for samplers over all of the replay
    buffer; at registration, when nothing runs yet, there are none. ``publish`` is called with the
    name and the value of an object that the learner has beside the weights.
    """

    plan: Plan
    module: Any
    seed: int
    threads: int = 1
    blocks: Mapping[int, ActorBlock] = field(default_factory=dict)
    publish: Publisher = field(default_factory=Publisher)
