"""Texts that policies wrote in a round: whole completions of rows, which are a token each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from artos.buffer.samplers.batch import Batch


class Completions(NamedTuple):
    """The first episodes of N environments in a round of T rows."""

    text: NDArray[np.int64]
    """What each policy saw before its last token, (N, L)."""
    lengths: NDArray[np.int64]
    """Tokens before each token that it wrote, (N, T)."""
    valid: NDArray[np.bool_]
    """Which rows are of that episode, (N, T)."""
    returns: NDArray[np.float32]
    """What it was paid, (N,)."""

    def part(self, which: NDArray[np.int64]) -> Completions:
        """Some of them, by their numbers."""
        text, lengths, valid, returns = self
        return Completions(text[which], lengths[which], valid[which], returns[which])


def completions(
    texts: NDArray[np.int64],
    actions: NDArray[np.int64],
    rewards: NDArray[np.float32],
    ends: NDArray[np.bool_],
) -> Completions:
    """Rows (N, T), and the ``texts`` (N, T, L) that they show, as whole texts.

    Raises:
        ValueError: a text is not the one before it with the token that was chosen behind it.
    """
    valid: NDArray[np.bool_] = np.cumsum(ends, 1) - ends == 0
    lengths, last = np.count_nonzero(texts, -1), valid.sum(1) - 1
    text = texts[np.arange(len(texts)), last]
    inner = valid.copy()
    inner[np.arange(len(texts)), last] = False
    who, when = np.nonzero(inner)
    if (text[who, lengths[who, when]] != actions[who, when]).any():
        raise ValueError(_REWRITTEN)
    return Completions(text, lengths, valid, np.where(valid, rewards, 0).sum(1))


def by_completion(batch: Batch, name: str) -> NDArray[Any]:
    """A key's rows, of (A, T, E, ...), as (A * E, T, ...)."""
    found = np.moveaxis(batch.gather(name), 1, 2)
    return np.ascontiguousarray(found).reshape(-1, *found.shape[2:])


_REWRITTEN = (
    "a text is not the one before it and the token that was chosen: let the environment show the "
    "text so far, 0 where nothing is written yet, and write each token behind it"
)
