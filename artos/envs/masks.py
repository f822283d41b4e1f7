"""Action masks of a vector environment: read, and refused where they allow nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from artos.envs.spec import MASK, EnvSpec
from artos.spec import MASK_KEY

Flags = NDArray[np.bool_]


class ActionMasks:
    """Makes an environment's masks, of any dtype, a part of its observations: bool (E, choices)."""

    def __init__(self, spec: EnvSpec, envs: int) -> None:
        sizes, self._actions = spec.actions.sizes, spec.actions.shape
        self._starts = np.cumsum((0, *sizes[:-1]))
        self._in_info, self._shape = spec.masked == "info", (envs, sum(sizes))

    def put(self, parts: dict[str, NDArray[Any]], info: dict[str, Any]) -> None:
        """Write the mask into ``parts``."""
        parts[MASK_KEY] = np.not_equal(self.said(info) if self._in_info else parts[MASK_KEY], 0)

    def said(self, info: dict[str, Any]) -> NDArray[Any]:
        """What ``info`` says, (E, choices) of any dtype; zeros where it says nothing."""
        said = info.get(MASK)
        if said is None:
            return np.zeros(self._shape, bool)
        if said.dtype == object:  # lists, and None where nothing was said
            said = np.array([np.zeros(self._shape[1]) if row is None else row for row in said])
        return said.reshape(self._shape)

    def first(self, mask: Flags) -> NDArray[np.int64]:
        """An allowed action for each row of a mask, (n, *shape), as it is stored."""
        pieces = np.split(mask, self._starts[1:], axis=1)
        chosen = np.stack([piece.argmax(1) for piece in pieces], 1)
        return chosen.reshape(len(mask), *self._actions)

    def empty(self, mask: Flags) -> Flags:
        """Which rows of a mask, (n,), leave nothing to choose, be it for one sub-action."""
        anything: Flags = np.logical_or.reduceat(mask, self._starts, axis=1)
        empty: Flags = np.logical_not(anything.all(1))
        return empty

    def open(self, mask: Flags, rows: Any = slice(None)) -> None:
        """Allow everything in those ``rows`` that leave nothing: nobody chooses there."""
        here = mask[rows]
        here[self.empty(here)] = True
        mask[rows] = here
