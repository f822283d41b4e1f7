"""What a transformer has read of its texts: keys and values, so that each token is read once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class LayerRead(NamedTuple):
    """One layer's view of some rows of the cache, for tokens that are read now."""

    keys: Tensor
    """(B, heads, L, d), of all rows."""
    values: Tensor
    rows: Tensor
    """Which rows are read, (n,)."""
    places: Tensor
    """Where each of their tokens stands in its text, (n, m)."""

    def take(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Keep ``key`` and ``value``, (n, heads, m, d); returns all so far, and who sees what.

        These are keys and values (n, heads, k, d), and a mask (n, 1, m, k).
        """
        for held, new in ((self.keys, key), (self.values, value)):
            held[self.rows[:, None], :, self.places] = new.transpose(1, 2)
        behind = int(self.places.max()) + 1
        whole = torch.equal(self.rows, torch.arange(len(self.keys)))
        keys, values = (
            held[:, :, :behind] if whole else held[self.rows, :, :behind]
            for held in (self.keys, self.values)
        )
        seen = torch.arange(behind) <= self.places[:, None, :, None]
        return keys, values, seen


Reader = Callable[[Tensor, Tensor, Sequence[LayerRead]], Tensor]
"""Reads tokens (n, m) int64 at their places (n, m); returns logits (n, tokens) behind the last."""


class TextCache:
    """Keys and values (B, heads, L, d) of ``layers`` layers, for texts (B, L) that grow.

    A text that is not the one before it with further tokens behind is read from its beginning.
    What is kept is of the weights that it was read with: ``forget`` it when they change.
    """

    def __init__(self, layers: int, heads: int, width: int) -> None:
        self._layers, self._heads, self._each = layers, heads, width // heads
        self.forget()

    def forget(self) -> None:
        """Read every text from its beginning next time."""
        self._text = self._lengths = torch.empty(0, 0)
        self._kept: list[tuple[Tensor, Tensor]] = []

    def scores(self, text: Tensor, lengths: Tensor, read: Reader) -> Tensor:
        """Logits (B, tokens) of what follows the first ``lengths`` (B,) tokens of ``text`` (B, L).

        ``read`` is called with those tokens only that were not read yet, and for texts that begin
        alike, as a group does, once.
        """
        lengths = lengths.clamp(min=1)
        known = self._known(text, lengths)
        lacking = lengths - known
        found: Tensor | None = None
        for count in sorted({*lacking.tolist()}):
            rows = (lacking == count).nonzero()[:, 0]
            places = known[rows, None] + torch.arange(count)
            tokens = text[rows[:, None], places]
            if known[rows].any():
                views = [LayerRead(*kept, rows, places) for kept in self._kept]
                logits = read(tokens, places, views)
            else:
                logits = self._begun(rows, tokens, places, read)
            if len(rows) == len(text):
                found = logits
                break
            if found is None:
                found = logits.new_empty(len(text), logits.shape[1])
            found[rows] = logits
        assert found is not None  # there is at least one text
        self._text, self._lengths = text.clone(), lengths
        return found

    def _begun(self, rows: Tensor, tokens: Tensor, places: Tensor, read: Reader) -> Tensor:
        """Logits (n, tokens) behind texts of which nothing was read; those alike are read once."""
        alike, which = torch.unique(tokens, dim=0, return_inverse=True)
        first = (which == torch.arange(len(alike))[:, None]).int().argmax(1)
        views = [LayerRead(*kept, rows[first], places[first]) for kept in self._kept]
        logits = read(tokens[first], places[first], views)
        if len(first) < len(rows):
            read_as = rows[first][which]
            for held in itertools.chain.from_iterable(self._kept):
                held[rows, :, : tokens.shape[1]] = held[read_as, :, : tokens.shape[1]]
        return logits[which]

    def _known(self, text: Tensor, lengths: Tensor) -> Tensor:
        """How many tokens of each text were read, (B,)."""
        if self._text.shape != text.shape:
            shape = (len(text), self._heads, text.shape[1], self._each)
            self._kept = [(torch.zeros(shape), torch.zeros(shape)) for _ in range(self._layers)]
            return torch.zeros_like(lengths)
        behind = torch.arange(text.shape[1]) >= self._lengths[:, None]
        grown = ((text == self._text) | behind).all(1) & (lengths > self._lengths)
        return torch.where(grown, self._lengths, 0)
