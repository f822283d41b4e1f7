"""Windows of consecutive rows for recurrent learners (paper Table 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.buffer.samplers.episodes import has_marks
from artos.buffer.samplers.frames import Ints
from artos.buffer.samplers.priorities import WEIGHTS, Priorities
from artos.buffer.samplers.transitions import INDEX, Picks, RowWindow, Sample, TransitionReader
from artos.buffer.samplers.uniform import draw
from artos.specs.keys import AGES_KEY, Padding

MASK = "mask"
"""Name under which a sample of sequences says which rows count."""


class SequenceSampler:
    """Batches of windows of ``length`` rows of one environment, starts drawn uniformly.

    With ``alpha`` above 0 they are drawn by the priority of the first row that counts, as a
    ``PrioritisedSampler`` does: ``update`` sets it for windows, ``weights`` (batch_size,) float32
    are importance weights (R2D2, Kapturowski et al. 2019, §2.3).

    With ``burn_in`` a window has so many rows more at its beginning, T = ``burn_in + length`` in
    all, of whatever episode: ``mask`` is false there, and all that is said of ``length`` rows
    holds for the rest.

    A sample maps each key to (batch_size, T, *shape), ``index`` to (batch_size, 3) int64 of
    the actor, step and environment of each first row, ``policy_version`` to (batch_size, T) int64
    and ``mask`` to (batch_size, T) bool: true up to and including the first row where
    one of the keys ``ends`` is true, so a window never mixes two episodes. Store the recurrent
    state as a data key: the state in the first row starts the window.

    With the key ``valid``, no window starts with a row that is only a reset. The row after a
    truncated one is in the window, too, unless that was its last: ``mask`` is false there, and it
    holds the final observation, from which to bootstrap. So where ``mask`` is true in row t, row
    t + 1 of the window is what came next, or row t terminated. The last row has no successor in
    the window: bootstrap from it, but learn from those before. If also ``ages`` is there,
    ``mask`` ends before the last row of an episode that was given up, as its actor was restarted.
    """

    kept: ClassVar[tuple[str, ...]] = ("_rng", "_reader", "priorities")

    def __init__(
        self,
        blocks: Mapping[int, ActorBlock],
        keys: Sequence[str],
        batch_size: int,
        length: int,
        *,
        burn_in: int = 0,
        alpha: float = 0.0,
        beta: float | tuple[float, float] = 0.4,
        ends: Sequence[str] = ("terminations", "truncations"),
        seed: int | None = None,
        max_lag: int | None = None,
        padding: Padding | None = None,
        memory: Path | None = None,
    ) -> None:
        self.batch_size, self.length, self.max_lag = batch_size, length, max_lag
        self.burn_in = burn_in
        self._ends = tuple(ends)
        self._rng = np.random.default_rng(seed)
        self._marks = has_marks(next(iter(blocks.values())))
        read = tuple(dict.fromkeys((*keys, *ends, *((AGES_KEY,) if self._marks else ()))))
        self._reader = TransitionReader(
            list(blocks.values()), read, padding=padding, run=burn_in + length
        )
        self.priorities = (
            Priorities(self._reader, alpha, beta, seed, memory=memory) if alpha else None
        )

    def sample(self, version: int | None = None) -> Sample:
        """A batch of windows. ``version`` is the learner's (default: that of the newest row).

        Raises:
            NothingToSample: no window fits into the rows there are.
            Overwritten: the writers kept lapping the reader.
        """
        if self.max_lag is not None:
            self._reader.bound_lag(self.max_lag, version)
        sample = self._reader.read(self.batch_size, self._draw)
        ended = np.zeros((self.batch_size, self.length), np.bool_)
        for name in self._ends:
            np.logical_or(ended, sample[name][:, self.burn_in :], out=ended)
        mask = np.zeros((self.batch_size, self.burn_in + self.length), np.bool_)
        counted = mask[:, self.burn_in :]  # rows of the burn-in do not count
        counted[:, 0] = True
        counted[:, 1:] = ~np.logical_or.accumulate(ended, axis=1)[:, :-1]
        if self._marks:
            ages = sample[AGES_KEY][:, self.burn_in + 1 :]
            going_on = np.logical_and.accumulate(ages > 0, axis=1)
            counted[:, :-1] &= going_on
            counted[:, 1:] &= going_on
        if self.priorities is not None:
            sample[WEIGHTS] = self.priorities.weights(self._counting(sample[INDEX]))
        return {**self._reader.learned(sample, mask), MASK: mask}

    def update(self, index: Ints, priorities: NDArray[np.floating]) -> int:
        """Set the priorities (n,) of the windows ``index`` (n, 3), if they are drawn by them.

        Returns:
            how many of them were still there.

        Raises:
            BadRow: a priority is negative, NaN or infinite; none was set.
        """
        if self.priorities is None:
            return 0
        return self.priorities.update(self._counting(index), priorities)

    def anneal(self, progress: float) -> None:
        """Set the exponent of weights for this share of the run, 0 to 1, if there are any."""
        if self.priorities is not None:
            self.priorities.anneal(progress)

    def _counting(self, index: Ints) -> Ints:
        """The first row that counts of each window."""
        first: Ints = index + np.array([0, self.burn_in, 0])
        return first

    @property
    def stale(self) -> int:
        """Rows that ``max_lag`` left out of the last sample."""
        return self._reader.stale

    def _draw(self, count: int) -> Picks:
        terms, window = self._reader.terms(), self._reader.window()
        first = window.start + self.burn_in
        starts = RowWindow(first, np.maximum(first, window.stop - self.length + 1))
        if self.priorities is None:
            picks = draw(self._reader, starts, count, self._rng)
        else:
            picks = self.priorities.draw(count, starts, terms)
        return picks._replace(steps=picks.steps - self.burn_in)

    def __repr__(self) -> str:
        return f"<SequenceSampler of {self.batch_size} x {self.length} from {self._reader!r}>"
