"""What an actor is told when it is set up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from artos.buffer.actor_block import ActorBlock
from artos.buffer.desk import Desk
from artos.runs.plan import Plan


@dataclass(frozen=True)
class ActorContext:
    """One actor's place in a run: its number, its incarnation, its block, its seed.

    ``seed`` is distinct for every actor and every incarnation. Environments are reset with it, and
    draw what ``default_rng(seed)`` does: take another beside one, as ``default_rng((seed, 1))``.
    """

    plan: Plan
    actor: int
    incarnation: int
    block: ActorBlock
    seed: int
    greedy: bool = False
    """Whether its policy is to act for the best, as where a data set is recorded."""
    desks: Mapping[str, Sequence[Desk]] = field(default_factory=dict)
    """By the name of a server of its run, where it asks that one: a desk for each of its seats."""
    replays: bool = False
    """Whether a run is repeated: each version is in memory, whichever way it had taken."""
    learned_from: bool = True
    """Whether anyone learns from its rows, unlike where a data set is recorded."""
