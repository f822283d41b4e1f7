"""Access patterns as plain data (paper Table 1): how a trigger says which rows the learner gets."""

from __future__ import annotations

from typing import ClassVar, Self

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

    def of(self, batch: int) -> Self:
        """The same for another number of picks."""
        return msgspec.structs.replace(self, batch=batch)


class Uniform(Picked, frozen=True, tag="uniform"):
    """``batch`` transitions, every one equally likely; see ``UniformSampler``.

    With ``n_step`` returns over so many rows are summed, discounted by ``gamma``.

    Of an environment with goals, ``her`` is the share of transitions whose goal is one that was
    reached later in the same episode, with the reward that the environment pays for it; see
    ``Hindsight``. It needs an ``n_step`` of 1.
    """

    n_step: int = 1
    gamma: float = 0.99
    her: float = 0.0


class Prioritised(Picked, frozen=True, tag="prioritised"):
    """``batch`` transitions in proportion to priority ** ``alpha``; see ``PrioritisedSampler``.

    ``beta`` may be a pair: it then goes from the first to the second over the run's progress.
    ``initial`` names the data key (a float per row) that a new row's first priority is read from.
    """

    alpha: float = 0.6
    beta: float | tuple[float, float] = 0.4
    n_step: int = 1
    gamma: float = 0.99
    initial: str = ""


class Sequences(Picked, frozen=True, tag="sequences"):
    """``batch`` windows of ``length`` rows to learn from; see ``SequenceSampler``.

    Before these each window has ``burn_in`` rows more, through which a recurrent policy goes from
    the state that is stored in the first of them, to have a state made by its present weights
    (R2D2, Kapturowski et al. 2019, §2.3). They count in no ratio. With ``alpha`` above 0 windows
    are drawn in proportion to priority ** ``alpha``; ``beta`` is as in ``Prioritised``.
    """

    length: int
    burn_in: int = 0
    alpha: float = 0.0
    beta: float | tuple[float, float] = 0.4

    @property
    def window(self) -> int:
        """Rows of a window, burn-in included."""
        return self.burn_in + self.length

    @property
    def rows(self) -> int:
        """Transitions in a batch."""
        return self.batch * self.length


class FullBatch(msgspec.Struct, frozen=True):
    """The next rows of every actor that takes part, handed over together, each row once."""

    n: None = None


class FIFO(msgspec.Struct, frozen=True):
    """The next rows of the first ``n`` actors that have enough of them, each row once."""

    n: int = 1


class Episodes(msgspec.Struct, frozen=True):
    """``n`` whole episodes, whichever actors they are from, each handed over once.

    The learner's method gets an ``EpisodeBatch``.
    """

    n: int


Pattern = Uniform | Prioritised | Sequences
"""Rows are drawn, as often as the ratio says: for a ``ReplayTrigger``."""
Claiming = FullBatch | FIFO | Episodes
"""Rows are claimed, each once: for a ``DataKeyTrigger``."""


class Draw(msgspec.Struct, frozen=True):
    """What the learner's method of a target is given: ``keys`` drawn by a pattern.

    ``data`` says how many of the ``batch`` picks are of which data set; the others are live rows.
    """

    target: str
    keys: tuple[str, ...]
    pattern: Pattern
    max_lag: int | None = None
    data: dict[str, int] = {}

    @property
    def live(self) -> int:
        """Picks of live rows."""
        return self.pattern.batch - sum(self.data.values())
