"""float32 as bfloat16 and back: half the bytes, the same range, 8 bits of precision."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

BFLOAT16 = "bfloat16"


def narrow(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Finite float32 values, rounded to the nearest bfloat16 (ties to even), as 16-bit words."""
    return values.astype(ml_dtypes.bfloat16).view(np.uint16)


def rounded(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The values as those have them who were sent them narrow."""
    found = np.empty_like(values)
    widen(narrow(values), found)
    return found


def widen(words: NDArray[np.uint16], out: NDArray[Any]) -> None:
    """Write the float32 values of bfloat16 words into ``out``, exactly."""
    out[...] = words.view(ml_dtypes.bfloat16)
