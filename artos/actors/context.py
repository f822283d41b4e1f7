"""What an actor is told when it is set up."""

from __future__ import annotations

from dataclasses import dataclass

from artos.buffer.actor_block import ActorBlock
from artos.runs.plan import Plan


@dataclass(frozen=True)
class ActorContext:
    """One actor's place in a run: its number, its incarnation, its block, its seed.

    ``seed`` is distinct for every actor and every incarnation.
    """

    plan: Plan
    actor: int
    incarnation: int
    block: ActorBlock
    seed: int
    greedy: bool = False
    """Whether its policy is to act for the best, as where a data set is recorded."""
