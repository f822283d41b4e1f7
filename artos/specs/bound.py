"""What an actor acts with: a version of the weights, and what the learner published beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from artos.specs.keys import MODEL_PARAM

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
    pasts_of: Mapping[str, tuple[Bound, ...]] = field(default_factory=dict)
    """The same of each other learner in the actor's ``past_of``."""

    def past(self, k: int, of: str = "") -> Bound:
        """The ``k``-th past version, 1 to ``history``: 1 is the newest before this one.

        While there are fewer it is the oldest there is, which may be this version itself. ``of``
        is another learner, whose past versions are counted from the one that is bound with this.

        Raises:
            ValueError: no such version is ever kept.
        """
        if not 1 <= k <= self.history:
            raise ValueError(f"past({k}): the actor has history={self.history}, set it to {k}")
        if of and of not in self.pasts_of:
            raise ValueError(f"past({k}, {of!r}): the actor's past_of lacks {of!r}: name it there")
        versions = self.versions_of(of)
        return versions[min(k, len(versions)) - 1]

    def versions_of(self, learner: str = "") -> tuple[Bound, ...]:
        """The past versions of a learner, by default the first; its newest while there is none."""
        if not learner:
            return self.pasts or (self,)
        if pasts := self.pasts_of.get(learner):
            return pasts
        front = f"{learner}/"
        own = {name: value for name, value in self.objects.items() if name.startswith(front)}
        return (Bound(self.versions[learner], own.pop(f"{front}{MODEL_PARAM}"), own),)
