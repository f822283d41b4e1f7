"""What an actor acts with: a version of the weights, and what the learner published beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Bound:
    """A version of the weights, and the objects that its actor ``reads`` as they were with it.

    All of one version, never a mix, until the next ``bind``. Before the first one there is nothing.
    """

    version: int = -1
    params: NDArray[np.float32] | None = None
    """The weights, (N,) float32, to be read only: they may be in shared memory.

    None where a policy is played after its run.
    """
    objects: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Copies of the values by name, of the shapes and dtypes that the learner declares."""
