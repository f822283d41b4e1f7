"""Replicas of a learner: each takes its part of every batch, and their gradients are added up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from artos.buffer.samplers.drawn_batch import DrawnBatch
from artos.errors import IndivisibleRows

if TYPE_CHECKING:
    from torch import Tensor

Rows = TypeVar("Rows", NDArray[np.int64], DrawnBatch)


class Replicas:
    """The replicas of a learner as it sees them; here it is the only one, and nothing is divided.

    All replicas carry out the same calls on the same rows and hold the same state. They must make
    the same calls here, in the same order: each of these waits for all others.
    """

    rank: int = 0
    """Which of them this is; the first one publishes."""
    count: int = 1
    share: float = 1.0
    """The losses that ``Network`` is given are multiplied by it, so that their sum over replicas is
    the loss of the whole. ``part`` sets it for losses that are means."""

    @property
    def alone(self) -> bool:
        """Whether there is no other."""
        return self.count == 1

    def part(self, rows: Rows) -> Rows:
        """This one's part of indices (n,), or of a drawn batch: every ``count``-th row.

        Losses from now on are means over it: they count by its ``share`` of all rows.

        Raises:
            IndivisibleRows: there are fewer rows than replicas, and the mean of none is no number.
        """
        if self.alone:
            return rows
        if (there := len(rows.index if isinstance(rows, DrawnBatch) else rows)) < self.count:
            raise IndivisibleRows(there, self.count)
        if isinstance(rows, DrawnBatch):
            mine = rows.part(self.rank, self.count, self.assemble)
            self.share = len(mine.index) / len(rows.index)
            return mine
        few = rows[self.rank :: self.count]
        self.share = len(few) / len(rows)
        return few

    def columns(self, index: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """This one's part of indices (n,) of whole sequences: every ``count``-th of ``columns``.

        ``columns`` (n,) says which sequence each is of.
        """
        if self.alone:
            return index
        mine = np.unique(columns)[self.rank :: self.count]
        return index[np.isin(columns, mine)]

    def sum(self, tensor: Tensor) -> None:
        """Add up a tensor over all replicas, in place: all have the sum then."""

    def total(self, metrics: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Scalars, each of this one's part, as those of the whole: added up by ``share``."""
        if self.alone or not metrics:
            return metrics
        from torch import stack  # noqa: PLC0415  # learners without it have no replicas

        values = stack([value.detach().double().cpu() for value in metrics.values()]) * self.share
        self.sum(values)
        return dict(zip(metrics, values, strict=True))

    def all(self, holds: bool) -> bool:
        """Whether it holds in all: each decides alike by what it may have come to know alone."""
        if self.alone:
            return holds
        from torch import tensor  # noqa: PLC0415  # learners without it have no replicas

        count = tensor([int(holds)])
        self.sum(count)
        return int(count) == self.count

    def assemble(
        self, values: NDArray[Any], rows: int, at: NDArray[np.int64] | None = None
    ) -> NDArray[Any]:
        """Values (n, ...) of this one's part as those of all ``rows``, in their order.

        ``at`` says which rows they are of, if not of every ``count``-th.
        """
        return values

    def weigh(self, count: Tensor) -> None:
        """Losses from now on are means over ``count`` (scalar) rows here: set ``share`` by that.

        For losses that are means over rows of which nobody knows the number without a look.
        """
        if self.alone:
            return
        every = count.detach().double().cpu().reshape(1)
        mine = every.item()
        self.sum(every)
        self.share = mine / max(1.0, every.item())

    def __repr__(self) -> str:
        return f"<Replicas {self.rank} of {self.count}>"


ALONE = Replicas()
