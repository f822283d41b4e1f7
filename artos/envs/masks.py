"""Action masks of a vector environment: reads them, and finds those that allow nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from artos.envs.shown import Mismatch, first_of, numbers
from artos.envs.spec import MASK, EnvSpec
from artos.specs.keys import MASK_KEY

Flags = NDArray[np.bool_]


class ActionMasks:
    """Makes an environment's masks, of any dtype, a part of its observations: bool (E, choices)."""

    def __init__(self, spec: EnvSpec, envs: int) -> None:
        sizes, self._actions = spec.actions.sizes, spec.actions.shape
        self._starts = np.cumsum((0, *sizes[:-1]))
        self._in_info, self._shape = spec.masked == "info", (envs, sum(sizes))

    def put(self, parts: dict[str, NDArray[Any]], info: dict[str, Any]) -> None:
        """Write the mask into ``parts``.

        Raises:
            Mismatch: it is not a mask.
        """
        parts[MASK_KEY] = self.flags(self.said(info) if self._in_info else parts[MASK_KEY])

    def said(self, info: dict[str, Any]) -> NDArray[Any]:
        """What ``info`` says, (E, choices) of any dtype; zeros where it says nothing.

        Raises:
            Mismatch: it says something else.
        """
        said = info.get(MASK)
        if said is None:
            return np.zeros(self._shape, bool)
        if isinstance(said, list | tuple) or said.dtype == object:
            # With None where nothing was said.
            said = [np.zeros(self._shape[1]) if row is None else row for row in said]
        mask = mask_of(said)
        if mask.size != np.prod(self._shape):
            raise Mismatch(MASK_KEY, _OTHER.format(f"{mask.dtype} {mask.shape}"))
        return mask.reshape(self._shape)

    def flags(self, said: NDArray[Any]) -> Flags:
        """A mask of any dtype as flags, (n, choices).

        Raises:
            Mismatch: it has other numbers than 1 and 0.
        """
        found: Flags = np.not_equal(said, 0)
        if said.dtype != bool and (bad := said != found).any():
            raise Mismatch(MASK_KEY, f"{first_of(said, bad)}: {_MEANING}")
        return found

    def first(self, mask: Flags) -> NDArray[np.int64]:
        """An allowed action for each row of a mask, (n, *shape), as it is stored."""
        pieces = np.split(mask, self._starts[1:], axis=1)
        chosen = np.stack([piece.argmax(1) for piece in pieces], 1)
        return chosen.reshape(len(mask), *self._actions)

    def empty(self, mask: Flags) -> Flags:
        """Which rows of a mask, (n,), leave nothing to choose, if only for one sub-action."""
        anything: Flags = np.logical_or.reduceat(mask, self._starts, axis=1)
        empty: Flags = np.logical_not(anything.all(1))
        return empty

    def open(self, mask: Flags, rows: Any = slice(None)) -> None:
        """Allow everything in those ``rows`` that leave nothing: no one chooses there."""
        here = mask[rows]
        here[self.empty(here)] = True
        mask[rows] = here


def mask_of(said: Any) -> NDArray[Any]:
    """A copy of what an environment says about its actions.

    Raises:
        Mismatch: it is not made of numbers.
    """
    mask = numbers(said)
    if mask is None:
        raise Mismatch(MASK_KEY, _OTHER.format(f"a {type(said).__name__}"))
    return mask.copy()


_MEANING = "a mask has 1 for what may be chosen, and 0 for what may not"
_OTHER = f"the environment returned {{}}: {_MEANING}, for each choice"
