"""Members that tests name often."""

from __future__ import annotations

from artos.members import ACTORS, Member
from artos.members import EVALUATOR as EVALUATES
from artos.members import LEARNER as LEARNS

LEARNER, EVALUATOR = Member(LEARNS), Member(EVALUATES)


def acting(*ranks: int) -> tuple[Member, ...]:
    """The actors of these ranks."""
    return tuple(Member(ACTORS, rank) for rank in ranks)
