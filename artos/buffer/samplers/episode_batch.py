"""A batch of whole episodes of varying length (the claims of ``Episodes(n)``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.buffer.samplers.frames import Ints, Rows, Sources
from artos.protocol.invocations import Claim
from artos.specs.keys import VERSION_KEY, Padding


class EpisodeBatch(Mapping[str, NDArray[Any]]):
    """``n`` whole episodes: ``batch[key]`` has their N rows, one episode after the other.

    Values are (N, *shape) in the data key's dtype, of a stacked key (N, k, *shape), copied when
    they are asked for. ``padded(key)`` has them as (T, n, *shape), time first, T the longest of the
    episodes; ``mask`` (T, n) bool says where there is a row. ``episodes(key)`` lists the arrays of
    the single episodes. ``pad`` and ``flat`` lead from N rows to (T, n) and back, so what an
    estimate returns for padded episodes fits the rows again.

    ``claims`` says of which actor and environment each is, and which rows.

    Raises:
        Overwritten: the writer lapped a read.
        UnknownKey: the blocks have no such key.
    """

    def __init__(
        self,
        blocks: Mapping[int, ActorBlock],
        claims: Sequence[Claim],
        padding: Padding | None = None,
    ) -> None:
        self.claims = tuple(claims)
        self.lengths: Ints = np.array([claim.stop - claim.start for claim in claims], np.int64)
        """Rows of each episode, (n,)."""
        steps = np.arange(self.lengths.max())
        self.mask: NDArray[np.bool_] = steps[:, None] < self.lengths
        """Where ``padded`` has a row, (T, n)."""
        self.was_read = False
        self._blocks = [blocks[claim.actor] for claim in claims]
        owners = np.repeat(np.arange(len(claims)), self.lengths)
        starts, envs = (np.array(each, np.int64) for each in zip(
            *((claim.start, claim.env) for claim in claims), strict=True
        ))  # fmt: skip
        within = np.concatenate([steps[:length] for length in self.lengths])
        self._rows = Rows(
            Sources(self._blocks, padding), owners, starts[owners] + within, envs[owners]
        )

    def __getitem__(self, name: str) -> NDArray[Any]:
        key = self._rows.sources.key(name)
        stack = (key.stack,) if key.stack > 1 else ()
        out = np.empty((len(self._rows.steps), *stack, *key.shape), key.dtype)
        self.was_read = True
        self._rows.take(name, out)
        for block, claim in zip(self._blocks, self.claims, strict=True):
            block.guard(claim.start, (name,))  # no stack looks back beyond its episode
        return out

    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks[0].headers)

    def __len__(self) -> int:
        return len(self._blocks[0].headers)

    @property
    def shape(self) -> tuple[int, int]:
        """T and n."""
        longest, count = self.mask.shape
        return longest, count

    def padded(self, name: str) -> NDArray[Any]:
        """The values of a key as (T, n, *shape); 0 where an episode is over."""
        return self.pad(self[name])

    def episodes(self, name: str) -> list[NDArray[Any]]:
        """The values of a key, for each episode by itself, (length, *shape)."""
        return np.split(self[name], np.cumsum(self.lengths)[:-1])

    def pad(self, rows: NDArray[Any]) -> NDArray[Any]:
        """N rows, (N, ...), as (T, n, ...); 0 where an episode is over."""
        found = np.zeros((self.mask.shape[1], self.mask.shape[0], *rows.shape[1:]), rows.dtype)
        found[self.mask.T] = rows
        return found.swapaxes(0, 1)

    def flat(self, padded: NDArray[Any]) -> NDArray[Any]:
        """Of (T, n, ...) the rows that are there, (N, ...), in the order of ``batch[key]``."""
        found: NDArray[Any] = padded.swapaxes(0, 1)[self.mask.T]
        return found

    def versions(self) -> Ints:
        """The policy version of every row, (N,) int64."""
        return self[VERSION_KEY]

    def __repr__(self) -> str:
        return f"<EpisodeBatch of {len(self.claims)}, the longest of {self.mask.shape[0]} rows>"
