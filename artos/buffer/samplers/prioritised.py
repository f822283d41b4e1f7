"""Proportional prioritised replay with importance weights (paper Table 1; Schaul et al. 2016)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.buffer.samplers.frames import Ints
from artos.buffer.samplers.n_step import NStep
from artos.buffer.samplers.priorities import WEIGHTS, Priorities
from artos.buffer.samplers.transitions import INDEX, Picks, Sample, TransitionReader
from artos.specs.keys import Padding


class PrioritisedSampler:
    """Batches of transitions drawn with probability in proportion to priority ** alpha.

    Samples are those of ``UniformSampler`` plus ``weights`` (batch_size,) float32: importance
    weights. New rows get a priority as ``Priorities`` says; the learner gives others. ``memory`` is
    where they are kept, too.
    """

    kept: ClassVar[tuple[str, ...]] = ("priorities", "_reader")

    def __init__(
        self,
        blocks: Mapping[int, ActorBlock],
        keys: Sequence[str],
        batch_size: int,
        *,
        next_keys: Sequence[str] = (),
        seed: int | None = None,
        alpha: float = 0.6,
        beta: float | tuple[float, float] = 0.4,
        n_step: NStep | None = None,
        max_lag: int | None = None,
        padding: Padding | None = None,
        initial: str = "",
        memory: Path | None = None,
    ) -> None:
        self.batch_size, self.max_lag = batch_size, max_lag
        self._reader = TransitionReader(
            list(blocks.values()), keys, next_keys, n_step=n_step, padding=padding,
            also=(initial,) if initial else (),
        )  # fmt: skip
        self.priorities = Priorities(self._reader, alpha, beta, seed, initial, memory)

    def sample(self, version: int | None = None) -> Sample:
        """A batch of transitions. ``version`` is the learner's (default: that of the newest row).

        Raises:
            NothingToSample: no row qualifies.
            Overwritten: the writers kept lapping the reader.
        """
        if self.max_lag is not None:
            self._reader.bound_lag(self.max_lag, version)
        sample = self._reader.read(self.batch_size, self._draw)
        sample[WEIGHTS] = self.priorities.weights(sample[INDEX])
        return self._reader.learned(sample)

    def update(self, index: Ints, priorities: NDArray[np.floating]) -> int:
        """Set the priorities (n,) of the rows ``index`` (n, 3): ``Priorities.update``."""
        return self.priorities.update(index, priorities)

    def anneal(self, progress: float) -> None:
        """Set the exponent of weights for this share of the run, 0 to 1."""
        self.priorities.anneal(progress)

    @property
    def stale(self) -> int:
        """Rows that ``max_lag`` left out of the last sample."""
        return self._reader.stale

    def _draw(self, count: int) -> Picks:
        # Terms first: the window of a new term is at most as far as its rows are.
        terms = self._reader.terms()
        return self.priorities.draw(count, self._reader.window(), terms)

    def __repr__(self) -> str:
        return f"<PrioritisedSampler of {self.batch_size} from {self._reader!r}>"
