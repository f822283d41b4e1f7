"""Batches of which so many rows are live and so many of each data set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from artos.buffer.samplers.batch import BatchStore
from artos.buffer.samplers.frames import Ints
from artos.buffer.samplers.prioritised import PrioritisedSampler
from artos.buffer.samplers.sequences import SequenceSampler
from artos.buffer.samplers.transitions import Sample
from artos.buffer.samplers.uniform import UniformSampler
from artos.system.snapshot import put_back, taken

One = UniformSampler | PrioritisedSampler | SequenceSampler
"""A sampler of rows of one kind."""


class MixedSampler:
    """Joins what its ``parts`` draw, each from rows of its own, to one batch.

    The part called "" draws live rows; the others are called like the data sets that they draw
    from, and ``numbers`` are what ``index`` calls these. Each part has the priorities of its own
    rows, and its weights are relative to its own largest one.
    """

    def __init__(self, parts: Mapping[str, One], numbers: Mapping[str, int]) -> None:
        self._parts, self.numbers = dict(parts), dict(numbers)
        self._store = BatchStore()

    @property
    def live(self) -> One | None:
        """The part that draws live rows."""
        return self._parts.get("")

    def sample(self, version: int | None = None) -> Sample:
        """A batch, live rows first. ``version`` is the learner's.

        Raises:
            NothingToSample: no row of a part qualifies.
            Overwritten: the writers of live rows kept lapping the reader.
        """
        first, *others = [part.sample(version) for part in self._parts.values()]
        return {
            name: self._joined(name, [values, *(other[name] for other in others)])
            for name, values in first.items()
        }

    def _joined(self, name: str, parts: list[NDArray[Any]]) -> NDArray[Any]:
        shape = (sum(map(len, parts)), *parts[0].shape[1:])
        return np.concatenate(parts, out=self._store.array(name, shape, parts[0].dtype))

    def anneal(self, progress: float) -> None:
        """Set ``beta`` of prioritised parts for this share of the run, 0 to 1."""
        for part in self._parts.values():
            if not isinstance(part, UniformSampler):
                part.anneal(progress)

    def update(self, index: Ints, priorities: NDArray[np.floating]) -> None:
        """Set the priorities (n,) of the rows ``index`` (n, 3); no effect if drawn uniformly.

        Raises:
            BadRow: a priority is negative, NaN or infinite.
        """
        values = np.asarray(priorities, np.float64).reshape(-1)
        live = ~np.isin(index[:, 0], [*self.numbers.values()])
        for name, part in self._parts.items():
            if not isinstance(part, UniformSampler):
                own = index[:, 0] == self.numbers[name] if name else live
                part.update(index[own], values[own])

    @property
    def burn_in(self) -> int:
        """How many rows of each window only warm up a recurrent state."""
        return max(getattr(part, "burn_in", 0) for part in self._parts.values())

    def snapshot(self) -> dict[str, Any]:
        """What its parts hold."""
        return {name: taken(part) for name, part in self._parts.items()}

    def go_on(self, found: Mapping[str, Any]) -> None:
        """Draw on from a snapshot."""
        for name, part in self._parts.items():
            put_back(part, found[name])

    def __repr__(self) -> str:
        return f"<MixedSampler of {', '.join(map(repr, self._parts.values()))}>"
