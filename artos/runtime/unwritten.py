"""Rows that an actor's ``sample`` left as they were, which nobody may learn from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.errors import BadRow
from artos.specs.keys import VERSION_KEY, DataKey

_NO_VERSION = -1
_WORDS = (1, 2, 4, 8)
"""Bytes of the types that are looked at: long doubles are not."""
_NAN = {2: 0x7EA5, 4: 0x7FE5A5A5, 8: 0x7FFDA5A5A5A5A5A5}
"""By bytes: a NaN that no computation makes, so that one an actor stores on purpose is written."""
_SURE_BYTES = 4
"""So many bytes that all are what was left there are no coincidence."""
_MISSING = (
    "{} of {} rows were not written: sample(start, rows, call) has to write all keys of each row{}"
)


class Unwritten:
    """Finds what an actor does not write: the version in all rounds, all else in the first.

    What a process forgets it forgets in every round, so the others cost nothing. Rows of the first
    one are filled before ``sample`` with what nobody writes by accident, as in a new block; a block
    that another process has written to holds that one's rows, which look right.
    """

    def __init__(self, block: ActorBlock) -> None:
        self._block, self._first = block, True
        self._keys = [k for k in block.spec.keys if np.dtype(k.dtype).itemsize in _WORDS]

    def mark(self, start: int, rows: int) -> None:
        """Note that nothing of these rows, which are allocated, has been written."""
        for versions in self._block.views(VERSION_KEY, start, start + rows):
            versions[...] = _NO_VERSION
        if self._first:
            for key in self._keys:
                for bits in self._bits(key.name, start, rows):
                    bits[...] = _pattern(bits, key.dtype)

    def check(self, start: int, rows: int) -> None:
        """See to it that all of these rows were written.

        Raises:
            BadRow: they were not; names the key.
        """
        views = self._block.views(VERSION_KEY, start, start + rows)
        missing = sum(int((versions == _NO_VERSION).sum()) for versions in views)
        self._refuse(VERSION_KEY, start, missing, rows)
        if self._first:
            for key in self._keys:
                self._refuse(key.name, start, self._untouched(key, start, rows), rows)
            self._first = False

    def _refuse(self, key: str, start: int, missing: int, rows: int) -> None:
        if missing:
            rest = ", also the version of the policy that made it" if key == VERSION_KEY else ""
            raise BadRow(key, self._block.spec.actor, start, _MISSING.format(missing, rows, rest))

    def _untouched(self, key: DataKey, start: int, rows: int) -> int:
        """How many rows are as ``mark`` left them; a bool that is left in others is True again."""
        kind, alike = np.dtype(key.dtype).kind, []
        for bits in self._bits(key.name, start, rows):
            same = bits == _pattern(bits, key.dtype)
            alike.append(same.reshape(len(bits), -1).all(axis=1))
            if kind == "b":
                bits[same] = True
        untouched = np.concatenate(alike)
        row = key.row_bytes(self._block.spec.envs)
        if kind in "bf" or row >= _SURE_BYTES:
            return int(untouched.sum())
        return rows if untouched.all() and rows * row >= _SURE_BYTES else 0

    def _bits(self, key: str, start: int, rows: int) -> list[NDArray[Any]]:
        """Rows of a key in place, as unsigned integers."""
        views = self._block.views(key, start, start + rows)
        return [view.view(f"u{view.itemsize}") for view in views]


def _pattern(bits: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """What is left where nothing was written: no constant, as values that never change are."""
    size = bits.itemsize
    word = _NAN[size] if np.dtype(dtype).kind == "f" else int.from_bytes(b"\xa5" * size)
    return np.resize(np.array([word, word ^ 1], bits.dtype), bits.shape)
