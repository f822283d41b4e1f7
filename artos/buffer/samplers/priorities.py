"""Priorities of rows, and rows drawn in proportion to them (Schaul et al. 2016)."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from artos.buffer.samplers.frames import Ints
from artos.buffer.samplers.priority_memory import PriorityMemory
from artos.buffer.samplers.sum_tree import SumTree
from artos.buffer.samplers.transitions import Picks, RowWindow, TransitionReader
from artos.errors import BadRow, NothingToSample

WEIGHTS = "weights"
"""Name under which a sample holds the importance weights."""
_SMALLEST = 1e-6


class Priorities:
    """Draws rows of a reader's blocks with probability in proportion to priority ** ``alpha``.

    New rows get the highest priority given so far, so that each is likely to be seen once, or with
    ``initial`` the one that their actor wrote into that data key (Ape-X, Horgan et al. 2018, §3).
    Once another process writes a block, all of its rows are looked at again, because void rows may
    have become others. What is in the file ``memory`` (``PriorityMemory``), if one is named,
    outlives this process. ``beta`` may be set at any time; ``anneal`` moves it from the first to
    the second of a pair (Schaul et al. 2016, §3.4).
    """

    kept: ClassVar[tuple[str, ...]] = (
        "beta", "_rng", "_reader", "_tree", "_known", "_terms", "_highest",
    )  # fmt: skip

    def __init__(
        self,
        reader: TransitionReader,
        alpha: float,
        beta: float | tuple[float, float],
        seed: int | None = None,
        initial: str = "",
        memory: Path | None = None,
    ) -> None:
        self.alpha, self._initial, self._reader = alpha, initial, reader
        self._betas = beta if isinstance(beta, tuple) else (beta, beta)
        self.beta = self._betas[0]
        self._rng = np.random.default_rng(seed)
        sources = reader.sources
        self._cells = sources.capacity * sources.envs
        actors = [block.spec.actor for block in sources.blocks]
        self._numbers = np.zeros(max(actors) + 1, np.int64)
        self._numbers[actors] = np.arange(len(actors))
        self._known = RowWindow(*np.zeros((2, len(actors)), np.int64))
        self._terms, self._highest = reader.terms(), 1.0
        self._memory = None
        if memory is not None:
            self._memory = PriorityMemory.opened(memory, actors, self._cells, alpha)
            self._find(self._memory)
        leaves = self._memory.leaves if self._memory else None
        self._tree = SumTree(len(actors) * self._cells, leaves)

    def _find(self, memory: PriorityMemory) -> None:
        """Go on from what another process had: rows are looked at again where the term is new."""
        _, start, stop, terms = memory.known.copy()
        self._known, self._terms = RowWindow(start, stop), np.where(stop > 0, terms, self._terms)
        self._highest = memory.highest
        there = [self._range(n, *ends) for n, ends in enumerate(zip(start, stop, strict=True))]
        unknown = np.ones(len(memory.leaves), np.bool_)
        unknown[np.concatenate(there)] = False
        memory.leaves[unknown] = 0.0

    def anneal(self, progress: float) -> None:
        """Set ``beta`` for this share of the run, 0 to 1."""
        first, last = self._betas
        self.beta = first + (last - first) * progress

    def draw(self, count: int, window: RowWindow, terms: Ints) -> Picks:
        """Draw rows of a window; ``terms`` are those of the blocks before it was looked at.

        Raises:
            NothingToSample: no row qualifies.
        """
        self._follow(window, terms)
        if self._tree.total <= 0:
            rows = int((self._known.stop - self._known.start).sum()) * self._reader.sources.envs
            raise NothingToSample(rows + self._reader.stale, self._reader.stale)
        leaves = self._tree.draw(count, self._rng)
        owners, cells = np.divmod(leaves, self._cells)
        places, envs = np.divmod(cells, self._reader.sources.envs)
        return Picks(owners, self._steps(owners, places), envs)

    def weights(self, index: Ints) -> NDArray[np.float32]:
        """Importance weights (N P(i)) ** -beta of rows over their maximum, (n,)."""
        drawn = self._tree.leaves[self._leaves(*self._columns(index))]
        # N and the total cancel out when weights are divided by their maximum.
        found: NDArray[np.float32] = ((drawn / drawn.min()) ** -self.beta).astype(np.float32)
        return found

    def update(self, index: Ints, priorities: NDArray[np.floating]) -> int:
        """Set the priorities (n,) of the rows ``index`` (n, 3), e.g. absolute TD errors.

        Rows overwritten since they were sampled are left alone.

        Returns:
            how many rows were still there.

        Raises:
            BadRow: a priority is negative, NaN or infinite; none was set.
        """
        values = np.asarray(priorities, np.float64).reshape(-1)
        self._check(index, values)
        owners, steps, envs = self._columns(index)
        here = (steps >= self._known.start[owners]) & (steps < self._known.stop[owners])
        values = np.maximum(values[here], _SMALLEST)
        self._tree.set(self._leaves(owners, steps, envs)[here], values**self.alpha)
        self._highest = max(self._highest, float(values.max(initial=0.0)))
        if self._memory is not None:
            self._memory.highest = self._highest
        return int(here.sum())

    @staticmethod
    def _check(index: Ints, values: NDArray[np.float64], name: str = "priorities") -> None:
        bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if len(bad):
            actor, step, _ = index[bad[0]].tolist()
            raise BadRow(name, actor, step, f"{values[bad[0]]} is no priority")

    def _follow(self, window: RowWindow, terms: Ints) -> None:
        """Remove rows from the tree that left the window, and add rows that entered it.

        ``terms`` are those of the blocks before the window was looked at.
        """
        known, self._known = self._known, window
        moved = np.flatnonzero((known.start != window.start) | (known.stop != window.stop))
        former, self._terms = self._terms, terms
        leaves: list[Ints] = []
        values: list[NDArray[np.float64]] = []
        # Known rows of actors that began a new term: some may be others by now, or given up.
        for owner in np.flatnonzero(terms != former).tolist():
            start = max(int(known.start[owner]), int(window.start[owner]))
            stop = min(int(known.stop[owner]), int(window.stop[owner]))
            rows = self._range(owner, start, max(start, stop))
            first, had = self._first_values(owner, rows), self._tree.leaves[rows]
            leaves.append(rows)
            keeps = (first > 0) & (had > 0) & (not self._initial)
            values.append(np.where(keeps, had, first))
        for owner in moved.tolist():
            old = range(int(known.start[owner]), int(known.stop[owner]))
            now = range(int(window.start[owner]), int(window.stop[owner]))
            gone = self._range(owner, old.start, min(old.stop, now.start))
            void = self._range(owner, max(old.start, now.stop), old.stop)
            # Old rows come back if ``max_lag`` counts from an earlier version than last time.
            back = self._range(owner, now.start, min(old.start, now.stop))
            new = self._range(owner, max(old.stop, now.start), now.stop)
            leaves += [gone, void, back, new]
            values += [np.zeros(len(gone) + len(void))]
            values += [self._first_values(owner, came) for came in (back, new)]
        if leaves:
            # A new row may lie where one that left was: the later value wins.
            self._tree.set(np.concatenate(leaves), np.concatenate(values))
        if leaves and self._memory is not None:
            self._memory.known[1:] = *window, terms

    def _range(self, owner: int, start: int, stop: int) -> Ints:
        envs, capacity = self._reader.sources.envs, self._reader.sources.capacity
        cells = np.arange(start * envs, max(start, stop) * envs)
        return owner * self._cells + cells % (capacity * envs)

    def _first_values(self, owner: int, leaves: Ints) -> NDArray[np.float64]:
        values = np.full(len(leaves), self._highest)
        if self._initial:
            values = self._given(owner, leaves - owner * self._cells)
        values **= self.alpha
        if self._reader.selects and len(leaves):
            places, envs = np.divmod(leaves - owner * self._cells, self._reader.sources.envs)
            values *= self._reader.transitions(Picks(np.full_like(places, owner), places, envs))
        return values

    def _given(self, owner: int, cells: Ints) -> NDArray[np.float64]:
        """The priorities that the actor gave to the rows of some cells."""
        sources, name = self._reader.sources, self._initial
        block, values = sources.blocks[owner], sources.flat(name)[owner][cells, 0].astype(float)
        steps = self._steps(owner, cells // sources.envs)
        still = steps >= self._reader.oldest(
            owner, name
        )  # a row that was overwritten meanwhile is not drawn
        index = np.stack([np.full(len(cells), block.spec.actor), steps, cells % sources.envs], 1)
        self._check(index[still], values[still], name)
        return np.where(still, np.maximum(values, _SMALLEST), _SMALLEST)

    def _steps(self, owner: int | Ints, places: Ints) -> Ints:
        last = self._known.stop[owner] - 1
        steps: Ints = last - (last - places) % self._reader.sources.capacity
        return steps

    def _columns(self, index: Ints) -> tuple[Ints, Ints, Ints]:
        return self._numbers[index[:, 0]], index[:, 1], index[:, 2]

    def _leaves(self, owners: Ints, steps: Ints, envs: Ints) -> Ints:
        sources = self._reader.sources
        return owners * self._cells + steps % sources.capacity * sources.envs + envs
