"""Uniform replay: every stored transition is equally likely (paper Table 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from artos.buffer.actor_block import ActorBlock
from artos.buffer.samplers.frames import Ints, Sources
from artos.buffer.samplers.hindsight import Hindsight
from artos.buffer.samplers.n_step import NStep
from artos.buffer.samplers.transitions import Picks, RowWindow, Sample, TransitionReader
from artos.errors import NothingToSample
from artos.specs.keys import Padding

_TRIES = 64


class UniformSampler:
    """Batches of transitions drawn with replacement, uniformly over all rows of all blocks.

    A sample maps each key to (batch_size, *shape) in its dtype, ``next.KEY`` to the value one row
    later (with ``n_step``: of the bootstrap row), ``index`` to (batch_size, 3) int64 of actor, step
    and environment, ``policy_version`` to (batch_size,) int64. Rows come in memory order.
    Arrays are overwritten by the next ``sample``.

    A row's successor is in the same episode, or holds its final observation. Rows whose key
    ``valid`` is false are never drawn, nor are rows whose successor never came, as their actor was
    restarted (with the key ``ages``, too). After a termination ``n_step.discounts`` are 0.
    ``max_lag`` leaves out rows of policies more than that many versions old.

    With ``hindsight`` and an ``n_step`` of 1 a share of the rows is relabelled: both observations
    have a goal that was reached later, ``n_step.returns`` and ``n_step.discounts`` are those that
    the environment has for it, and ``relabelled`` (batch_size,) bool says which rows these are.
    """

    kept: ClassVar[tuple[str, ...]] = ("_rng", "_reader")

    def __init__(
        self,
        blocks: Mapping[int, ActorBlock],
        keys: Sequence[str],
        batch_size: int,
        *,
        next_keys: Sequence[str] = (),
        seed: int | None = None,
        n_step: NStep | None = None,
        max_lag: int | None = None,
        padding: Padding | None = None,
        hindsight: Hindsight | None = None,
    ) -> None:
        self.batch_size, self.max_lag = batch_size, max_lag
        self._rng = np.random.default_rng(seed)
        self._reader = TransitionReader(
            list(blocks.values()), keys, next_keys, n_step=n_step, padding=padding,
            hindsight=hindsight,
        )  # fmt: skip

    def sample(self, version: int | None = None) -> Sample:
        """A batch of transitions. ``version`` is the learner's (default: that of the newest row).

        Raises:
            NothingToSample: no row qualifies.
            Overwritten: the writers kept lapping the reader.
        """
        if self.max_lag is not None:
            self._reader.bound_lag(self.max_lag, version)
        return self._reader.learned(self._reader.read(self.batch_size, self._draw))

    @property
    def stale(self) -> int:
        """Rows that ``max_lag`` left out of the last sample."""
        return self._reader.stale

    def _draw(self, count: int) -> Picks:
        return draw(self._reader, self._reader.window(), count, self._rng)

    def __repr__(self) -> str:
        return f"<UniformSampler of {self.batch_size} from {self._reader!r}>"


def draw(
    reader: TransitionReader, window: RowWindow, count: int, rng: np.random.Generator
) -> Picks:
    """Draw ``count`` rows of a window with replacement, ordered by block, step and environment.

    Raises:
        NothingToSample: the window is empty, or no row in it can be learned from.
    """
    sources = reader.sources
    ends = np.cumsum((window.stop - window.start) * sources.envs)
    numbers: Ints = np.empty(0, np.int64)
    for _ in range(_TRIES if ends[-1] else 0):
        more = rng.integers(ends[-1], size=count - len(numbers))
        if reader.selects:
            more.sort()
            more = more[reader.transitions(_picks(sources, window, ends, more))]
        numbers = np.concatenate((numbers, more))
        if len(numbers) == count:
            break
    else:  # few rows can be learned from, or none
        found = np.arange(ends[-1])
        if len(found):
            found = found[reader.transitions(_picks(sources, window, ends, found))]
        if not len(found):
            raise NothingToSample(int(ends[-1]) + reader.stale, reader.stale)
        numbers = np.concatenate((numbers, rng.choice(found, count - len(numbers))))
    numbers.sort()
    return _picks(sources, window, ends, numbers)


def _picks(sources: Sources, window: RowWindow, ends: Ints, numbers: Ints) -> Picks:
    owners = np.searchsorted(ends, numbers, side="right")
    sizes = (window.stop - window.start) * sources.envs
    steps, envs = np.divmod(numbers - (ends - sizes)[owners], sources.envs)
    return Picks(owners, steps + window.start[owners], envs)
