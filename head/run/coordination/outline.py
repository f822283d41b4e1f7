"""What a coordinator has to know of a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from artos.specs.members import Members


@dataclass(frozen=True)
class Outline:
    """The few facts of a plan on which the course of a run depends."""

    steps: int
    """Rows of a round: an actor is invoked for so many at once."""
    envs: int = 1
    """Steps of environments in a row."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """Of how many environments of an actor a target's rows are, where claims are of single ones."""
    total_steps: int = 0
    """Steps of environments after which no more rounds are granted; 0: no limit."""
    total_updates: int = 0
    """Updates after which no more are made; 0: no limit."""
    claims: bool = True
    """Whether the learner is handed rows, each once; otherwise it draws what it needs."""
    waits_for_room: bool = True
    """Whether an actor waits while its block is full, rather than overwrite the oldest rows."""
    non_publishing: frozenset[str] = frozenset()
    """Targets that only prepare an update: the learner publishes nothing when they fire."""
    read: tuple[str, ...] = ()
    """Learners beside the first of which actors read something together with its weights."""
    members: Members = field(default_factory=partial(Members.of_run, 1))
    """The table of its roles; how many actors there are does not matter here."""
