"""What keeps actors from running ahead of the learner."""

from __future__ import annotations

from typing import Protocol


class Limit(Protocol):
    """Says how far actors may go on sampling ahead of the learner."""

    granted: int
    """Transitions that actors made or were told to make."""

    def may_insert(self, count: int) -> bool:
        """Whether actors may be told to make ``count`` more transitions."""
