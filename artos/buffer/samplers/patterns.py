"""Access patterns of replay as plain data (paper Table 1): how a trigger says what is drawn."""

from __future__ import annotations

from typing import ClassVar

import msgspec


class Picked(msgspec.Struct, frozen=True):
    """Root of all patterns: ``batch`` picks at a time.

    ``successors`` says whether a batch also holds what came after its rows. Actors then store the
    last observation of each episode.
    """

    successors: ClassVar[bool] = True
    batch: int

    @property
    def rows(self) -> int:
        """Transitions in a batch."""
        return self.batch


class Uniform(Picked, frozen=True, tag="uniform"):
    """``batch`` transitions, every one equally likely; see ``UniformSampler``.

    With ``n_step`` returns over so many rows are summed, discounted by ``gamma``.
    """

    n_step: int = 1
    gamma: float = 0.99


class Prioritised(Picked, frozen=True, tag="prioritised"):
    """``batch`` transitions in proportion to priority ** ``alpha``; see ``PrioritisedSampler``."""

    alpha: float = 0.6
    beta: float = 0.4
    n_step: int = 1
    gamma: float = 0.99


class Sequences(Picked, frozen=True, tag="sequences"):
    """``batch`` windows of ``length`` rows; see ``SequenceSampler``."""

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
