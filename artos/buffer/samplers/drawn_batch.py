"""Batches that are drawn instead of claimed: what a replay trigger hands to the learner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.buffer.samplers.hindsight import Goals, Hindsight
from artos.buffer.samplers.mixed import MixedSampler, One
from artos.buffer.samplers.n_step import NStep
from artos.buffer.samplers.patterns import Draw, Pattern, Prioritised, Sequences, Uniform
from artos.buffer.samplers.priorities import WEIGHTS
from artos.buffer.samplers.prioritised import PrioritisedSampler
from artos.buffer.samplers.sequences import SequenceSampler
from artos.buffer.samplers.transitions import INDEX, Sample
from artos.buffer.samplers.uniform import UniformSampler
from artos.errors import UnknownKey
from artos.specs.keys import is_observation
from artos.system.random_streams import seed_of

Sampler = One | MixedSampler


class Elsewhere(msgspec.Struct, frozen=True):
    """What another process drew a batch by: there its priorities are kept, if there are any."""

    burn_in: int = 0
    numbers: dict[str, int] = {}


class DrawnBatch(Mapping[str, NDArray[Any]]):
    """A batch that was drawn: arrays by name, valid until the next one is drawn.

    ``index`` (n, 3) int64 says of which actor, step and environment each row is. A prioritised one
    has ``weights`` (n,) float32, and takes new priorities.
    """

    def __init__(self, arrays: Sample, sampler: Sampler | Elsewhere | _Part) -> None:
        self._arrays, self._sampler = arrays, sampler

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    @property
    def index(self) -> NDArray[np.int64]:
        """Which row each is."""
        return self._arrays[INDEX]

    @property
    def weights(self) -> NDArray[np.float32]:
        """Importance weights; 1 where rows are drawn uniformly."""
        weights = self._arrays.get(WEIGHTS)
        return np.ones(len(self.index), np.float32) if weights is None else weights

    @property
    def burn_in(self) -> int:
        """How many rows of each window only warm up a recurrent state."""
        return getattr(self._sampler, "burn_in", 0)

    def prioritise(self, priorities: NDArray[np.floating]) -> None:
        """Give rows, or windows, priorities (n,), e.g. TD errors; no effect if drawn uniformly."""
        if self.takes_priorities:
            self._sampler.update(self.index, priorities)  # type: ignore[union-attr]

    @property
    def takes_priorities(self) -> bool:
        """Whether ``prioritise`` has an effect."""
        return hasattr(self._sampler, "update")

    def part(
        self, first: int, every: int, whole: Callable[[NDArray[Any], int], NDArray[Any]]
    ) -> DrawnBatch:
        """Every so many-th row or window, from the ``first`` on, as a batch of its own.

        ``whole`` makes values (n,) of these those of all rows: so it takes priorities, too.
        """
        arrays = {name: array[first::every] for name, array in self._arrays.items()}
        if self.takes_priorities:
            return DrawnBatch(arrays, _Part(self, whole))
        return DrawnBatch(arrays, Elsewhere(self.burn_in, dict(self.numbers)))

    def of(self, data: str) -> NDArray[np.bool_]:
        """Which rows, (n,), or windows are of a data set that the trigger draws from.

        Raises:
            UnknownKey: it draws from no such data set.
        """
        if data not in self.numbers:
            raise UnknownKey(data, tuple(self.numbers))
        found: NDArray[np.bool_] = self.index[:, 0] == self.numbers[data]
        return found

    @property
    def numbers(self) -> Mapping[str, int]:
        """What ``index`` calls the data sets that the trigger draws from."""
        return getattr(self._sampler, "numbers", {})


class PrioritisedElsewhere(Elsewhere, frozen=True):
    """The same, of a batch whose priorities go there."""

    def update(self, index: NDArray[np.int64], priorities: NDArray[np.floating]) -> None:
        """Nothing: that process has them itself."""


class _Part:
    """What a part of a prioritised batch was drawn by: priorities are those of the whole."""

    def __init__(
        self, batch: DrawnBatch, whole: Callable[[NDArray[Any], int], NDArray[Any]]
    ) -> None:
        self.burn_in, self.numbers = batch.burn_in, batch.numbers
        self._batch, self._whole = batch, whole

    def update(self, index: NDArray[np.int64], priorities: NDArray[np.floating]) -> None:
        values = np.asarray(priorities, np.float64).reshape(-1)
        self._batch.prioritise(self._whole(values, len(self._batch.index)))


def bound_lag(sampler: Sampler, max_lag: int) -> None:
    """Have it leave out live rows that are older, if it bounds their age at all."""
    live = sampler.live if isinstance(sampler, MixedSampler) else sampler
    if live is not None and live.max_lag is not None:
        live.max_lag = max_lag


def drawn(sampler: Sampler, version: int, progress: float) -> DrawnBatch:
    """The batch of a learner at ``version``, when this share of its run is over.

    Raises:
        NothingToSample: no row qualifies.
    """
    if not isinstance(sampler, UniformSampler):
        sampler.anneal(progress)
    return DrawnBatch(sampler.sample(version), sampler)


def sampler_of(
    draw: Draw,
    blocks: Mapping[int, ActorBlock],
    seed: int,
    data: Mapping[str, ActorBlock] = MappingProxyType({}),
    goals: Callable[[], Goals] | None = None,
    memory: Path | None = None,
) -> Sampler:
    """The sampler that draws like that from these blocks, and from those of data sets.

    It keeps priorities in the file ``memory``, and those of data sets in one for each beside it.
    ``goals`` is asked for what the environment says of goals, if any are to be relabelled.

    Raises:
        ValueError: they are, and there is nobody to ask.
    """
    if not draw.data:
        return _sampler(draw, draw.pattern, blocks, seed, memory, goals)
    parts, bare = {}, msgspec.structs.replace(draw, max_lag=None)  # data sets have no versions
    if draw.live:
        parts[""] = _sampler(draw, draw.pattern.of(draw.live), blocks, seed, memory)
    for name, picks in draw.data.items():
        block = data[name]
        # Of its own place in the plan, so that no two parts draw alike.
        own = seed ^ block.spec.actor + 1
        beside = memory.with_name(f"{memory.name}-{name}") if memory else None
        parts[name] = _sampler(bare, draw.pattern.of(picks), {block.spec.actor: block}, own, beside)
    return MixedSampler(parts, {name: data[name].spec.actor for name in draw.data})


def _sampler(
    draw: Draw,
    pattern: Pattern,
    blocks: Mapping[int, ActorBlock],
    seed: int,
    memory: Path | None,
    goals: Callable[[], Goals] | None = None,
) -> One:
    keys, max_lag = draw.keys, draw.max_lag
    match pattern:
        case Sequences(batch, length, burn_in, alpha, beta):
            return SequenceSampler(
                blocks, keys, batch, length, burn_in=burn_in, alpha=alpha, beta=beta, seed=seed,
                max_lag=max_lag, memory=memory,
            )  # fmt: skip
        case Uniform(batch):
            hindsight = None
            if pattern.her:
                if goals is None:
                    raise ValueError(f"{pattern} relabels goals: say what the environment pays")
                hindsight = Hindsight(pattern.her, goals(), pattern.gamma, seed_of(seed, 1))
            return UniformSampler(
                blocks, keys, batch, seed=seed, max_lag=max_lag, hindsight=hindsight,
                **_ahead(pattern, keys),
            )  # fmt: skip
        case Prioritised(batch, alpha, beta):
            return PrioritisedSampler(
                blocks,
                keys,
                batch,
                seed=seed,
                alpha=alpha,
                beta=beta,
                max_lag=max_lag,
                initial=pattern.initial,
                memory=memory,
                **_ahead(pattern, keys),
            )


def _ahead(pattern: Uniform | Prioritised, keys: Sequence[str]) -> dict[str, Any]:
    following = tuple(filter(is_observation, keys))
    n_step = NStep(n=pattern.n_step, gamma=pattern.gamma)
    return {"next_keys": following, "n_step": n_step}
