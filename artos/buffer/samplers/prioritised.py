"""Proportional prioritised replay with importance weights (paper Table 1; Schaul et al. 2016)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.buffer.samplers.frames import Ints
from artos.buffer.samplers.n_step import NStep
from artos.buffer.samplers.sum_tree import SumTree
from artos.buffer.samplers.transitions import INDEX, Picks, RowWindow, Sample, TransitionReader
from artos.errors import BadRow, NothingToSample
from artos.specs.keys import Padding

WEIGHTS = "weights"
"""Name under which a sample holds the importance weights."""
_SMALLEST = 1e-6


class PrioritisedSampler:
    """Batches of transitions drawn with probability in proportion to priority ** alpha.

    Samples are those of ``UniformSampler`` plus ``weights`` (batch_size,) float32: importance
    weights (N P(i)) ** -beta over their maximum in the batch. New rows get the highest priority
    given so far, so that each is likely to be seen once. The learner calls ``update`` with
    ``index`` and new priorities. ``beta`` may be set at any time; ``anneal`` moves it from the
    first to the second of a pair (Schaul et al. 2016, §3.4).

    With ``initial`` new rows get the priority that their actor wrote into that data key (Ape-X,
    Horgan et al. 2018, §3). Once another process writes a block, all of its rows count as
    new, because void rows may have become others.
    """

    kept: ClassVar[tuple[str, ...]] = (
        "beta", "_rng", "_reader", "_tree", "_known", "_terms", "_highest",
    )  # fmt: skip

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
        depth: int = 1,
        padding: Padding | None = None,
        initial: str = "",
    ) -> None:
        self.batch_size, self.alpha, self.max_lag = batch_size, alpha, max_lag
        self._betas = beta if isinstance(beta, tuple) else (beta, beta)
        self.beta, self._initial = self._betas[0], initial
        self._rng = np.random.default_rng(seed)
        self._reader = TransitionReader(
            list(blocks.values()), keys, next_keys, n_step=n_step, depth=depth, padding=padding,
            also=(initial,) if initial else (),
        )  # fmt: skip
        sources = self._reader.sources
        self._cells = sources.capacity * sources.envs
        self._tree = SumTree(len(sources.blocks) * self._cells)
        self._known = RowWindow(*np.zeros((2, len(sources.blocks)), np.int64))
        self._terms = self._reader.terms()
        actors = [block.spec.actor for block in sources.blocks]
        self._numbers = np.zeros(max(actors) + 1, np.int64)
        self._numbers[actors] = np.arange(len(actors))
        self._highest = 1.0

    def anneal(self, progress: float) -> None:
        """Set ``beta`` for this share of the run, 0 to 1."""
        first, last = self._betas
        self.beta = first + (last - first) * progress

    def sample(self, version: int | None = None) -> Sample:
        """A batch of transitions. ``version`` is the learner's (default: that of the newest row).

        Raises:
            NothingToSample: no row qualifies.
            Overwritten: the writers kept lapping the reader.
        """
        if self.max_lag is not None:
            self._reader.bound_lag(self.max_lag, version)
        sample = self._reader.read(self.batch_size, self._draw)
        owners, steps, envs = self._columns(sample[INDEX])
        drawn = self._tree.leaves[self._leaves(owners, steps, envs)]
        # N and the total cancel out when weights are divided by their maximum.
        sample[WEIGHTS] = ((drawn / drawn.min()) ** -self.beta).astype(np.float32)
        return self._reader.learned(sample)

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
        return int(here.sum())

    @staticmethod
    def _check(index: Ints, values: NDArray[np.float64], name: str = "priorities") -> None:
        bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if len(bad):
            actor, step, _ = index[bad[0]].tolist()
            raise BadRow(name, actor, step, f"{values[bad[0]]} is no priority")

    # -- rows and leaves -----------------------------------------------------------------------

    @property
    def stale(self) -> int:
        """Rows that ``max_lag`` left out of the last sample."""
        return self._reader.stale

    def _draw(self, count: int) -> Picks:
        # Terms first: the window of a new term is at most as far as its rows are.
        terms = self._reader.terms()
        self._follow(self._reader.window(), terms)
        if self._tree.total <= 0:
            rows = int((self._known.stop - self._known.start).sum()) * self._reader.sources.envs
            raise NothingToSample(rows + self.stale, self.stale)
        leaves = self._tree.draw(count, self._rng)
        owners, cells = np.divmod(leaves, self._cells)
        places, envs = np.divmod(cells, self._reader.sources.envs)
        return Picks(owners, self._steps(owners, places), envs)

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
        still = steps >= block.oldest(name)  # a row that was overwritten meanwhile is not drawn
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

    def __repr__(self) -> str:
        return f"<PrioritisedSampler of {self.batch_size} from {self._reader!r}>"
