"""What several curves have in common: the part of their axis on which all of them are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def common_part(curves: Sequence[tuple[Floats, Floats]], points: int) -> tuple[Floats, Floats]:
    """Places from where the last of the curves begins to where the first ends, (points,).

    And what each curve is there, (curves, points). A mean over curves that had begun, or had not
    ended yet, would jump where one of them does. Without such a part, there are no places, and a
    part may be one place. Each curve is its places in order and its values, and has one, at least.
    """
    begin, end = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    at = np.linspace(begin, end, points if begin < end else int(begin == end))
    return at, np.stack([np.interp(at, x, y) for x, y in curves])
