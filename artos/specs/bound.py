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

    None where a policy is played after its run and its actors kept no past versions.
    """
    objects: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """The values by name, of the shapes and dtypes that learners declare, to be read only.

    The weights of another learner, ``"NAME/model_param"``, are a vector (N,) float32.
    """
    versions: Mapping[str, int] = field(default_factory=dict)
    """The versions of other learners of which the actor reads objects, by learner."""
    pasts: tuple[Bound, ...] = ()
    """The past versions that are kept for this one, from the newest on; none while it evaluates."""
    history: int = 0
    """How many there are once so many were published."""

    def past(self, k: int) -> Bound:
        """The ``k``-th past version, 1 to ``history``: 1 is the newest before this one.

        While there are fewer it is the oldest there is, which may be this version itself.

        Raises:
            ValueError: no such version is ever kept.
        """
        if not 1 <= k <= self.history:
            raise ValueError(f"past({k}): the actor has history={self.history}, set it to {k}")
        return self.pasts[min(k, len(self.pasts)) - 1] if self.pasts else self
