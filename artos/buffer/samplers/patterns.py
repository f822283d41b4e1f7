"""Access patterns of replay as plain data (paper Table 1): how a trigger says what is drawn."""

from __future__ import annotations

import msgspec


class Uniform(msgspec.Struct, frozen=True, tag="uniform"):
    """``batch`` transitions, every one equally likely; see ``UniformSampler``.

    With ``n_step`` returns over so many rows are summed, discounted by ``gamma``.
    """

    batch: int
    n_step: int = 1
    gamma: float = 0.99

    @property
    def rows(self) -> int:
        """Transitions in a batch."""
        return self.batch


class Prioritised(msgspec.Struct, frozen=True, tag="prioritised"):
    """``batch`` transitions in proportion to priority ** ``alpha``; see ``PrioritisedSampler``."""

    batch: int
    alpha: float = 0.6
    beta: float = 0.4
    n_step: int = 1
    gamma: float = 0.99

    @property
    def rows(self) -> int:
        """Transitions in a batch."""
        return self.batch


class Sequences(msgspec.Struct, frozen=True, tag="sequences"):
    """``batch`` windows of ``length`` rows; see ``SequenceSampler``."""

    batch: int
    length: int

    @property
    def rows(self) -> int:
        """Transitions in a batch."""
        return self.batch * self.length


Pattern = Uniform | Prioritised | Sequences


class Draw(msgspec.Struct, frozen=True):
    """What the learner's method of a target is given: ``keys`` drawn by a pattern."""

    target: str
    keys: tuple[str, ...]
    pattern: Pattern
    max_lag: int | None = None
