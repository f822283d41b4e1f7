"""Weights on their way out: copied once per version, whoever and however many ask for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from artos.buffer.model_block import ObjectRegion, Slot
from artos.protocol import codec
from artos.protocol.data import Weights
from artos.transport.bfloat16 import BFLOAT16, narrow

PARAMS = "params"
_PIECE = 128 << 10  # parameters; while one piece is on its way the next is made


class WeightStore:
    """The newest version as messages ready to be sent. ``reader`` is its pin in the model block.

    The slot is pinned only while it is copied: sending may take long, and a learner needs slots.
    With ``dtype`` bfloat16, float32 parameters travel rounded.
    """

    def __init__(self, region: ObjectRegion, reader: int, dtype: str) -> None:
        self._region, self._reader, self._dtype = region, reader, dtype
        self._version = -1
        self._messages: list[bytes] = []

    @property
    def version(self) -> int:
        """The newest version there is; -1 before the first."""
        return self._region.version

    def newest(self) -> Iterator[bytes]:
        """A message for every piece of the newest version; there must be one."""
        if self._version == self.version:
            yield from self._messages
            return
        self._messages = []
        slot = self._region.pin(self._reader)
        try:
            for message in self._made(slot):
                self._messages.append(message)
                yield message
        finally:
            self._region.unpin(self._reader)
        self._version = slot.version

    def _made(self, slot: Slot) -> Iterator[bytes]:
        params = slot.arrays[PARAMS].reshape(-1)
        short = self._dtype == BFLOAT16 and params.dtype == np.float32
        dtype, size = (BFLOAT16, 2) if short else (params.dtype.name, params.itemsize)
        for start in range(0, params.size, _PIECE):
            part = params[start : start + _PIECE]
            values: NDArray[Any] = narrow(part) if short else part
            content = values.data.cast("B")
            total, checksum = size * params.size, xxh3_64_intdigest(content)
            yield codec.encode(Weights(slot.version, dtype, checksum, size * start, total, content))
