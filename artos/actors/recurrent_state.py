"""The recurrent state of an actor's environments, from step to step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from artos.specs.keys import DataKey


class RecurrentState:
    """Arrays (E, *shape) by data key for E environments, zero where an episode begins."""

    kept: ClassVar[tuple[str, ...]] = ("arrays",)

    def __init__(self, keys: Sequence[DataKey], envs: int) -> None:
        self.arrays: dict[str, NDArray[Any]] = {
            key.name: np.zeros((envs, *key.shape), key.dtype) for key in keys
        }

    def begin(self, ages: NDArray[np.uint8]) -> None:
        """Forget the past of environments whose episode is 0 steps old; ``ages`` is (E,)."""
        if self.arrays and not ages.all():
            begun = ages == 0
            for array in self.arrays.values():
                array[begun] = 0

    def take(self, output: Mapping[str, NDArray[Any]]) -> None:
        """Go on with the state that the policy returned."""
        for name, array in self.arrays.items():
            array[...] = output[name]

    def of(self, index: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """The state of some environments, (k, *shape) by name."""
        return {name: array[index] for name, array in self.arrays.items()}
