"""float32 as bfloat16 and back: half the bytes, the same range, 8 bits of precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

BFLOAT16 = "bfloat16"

_HALF = np.uint32(0x7FFF)
_ONE = np.uint32(1)
_SHIFT = np.uint32(16)


def narrow(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Finite float32 values, rounded to the nearest bfloat16 (ties to even), as 16-bit words."""
    words = values.view(np.uint32)
    rounded = words >> _SHIFT
    rounded &= _ONE  # 1 where the truncated word is odd
    rounded += words
    rounded += _HALF
    rounded >>= _SHIFT
    return rounded.astype(np.uint16)


def widen(words: NDArray[np.uint16], out: NDArray[Any]) -> None:
    """Write the float32 values of bfloat16 words into ``out``, exactly."""
    np.left_shift(words, _SHIFT, out=out.view(np.uint32), casting="unsafe", dtype=np.uint32)
