"""Members that tests name often."""

from __future__ import annotations

from artos.specs.members import ACTORS, Member
from artos.specs.members import EVALUATOR as EVALUATES
from artos.specs.members import LEARNER as LEARNS

LEARNER, EVALUATOR = Member(LEARNS), Member(EVALUATES)


def acting(*ranks: int) -> tuple[Member, ...]:
    """The actors of these ranks."""
    return tuple(Member(ACTORS, rank) for rank in ranks)
