"""IMPALA: A2C off-policy; its trigger table is in ``triggers.algorithms.impala``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from artos.buffer.samplers.batch import Batch
from artos.learners.a2c import A2C, Stepping
from artos.learners.ranges import bounds
from artos.losses.rounds import Floats
from artos.losses.vtrace import vtrace


class IMPALA(A2C):
    """IMPALA (Espeholt et al. 2018): V-trace corrects for the lag of the rows' policies.

    ``clip_rho`` and ``clip_c`` bound the ratio of the learner's policy to the actor's, see
    ``artos.losses.vtrace``; further ``settings`` are those of A2C.

    Values are those of the network as it is: of all rows of the batch, in the pass that is learned
    from. Only where no row holds the state that followed, after a truncation and at the end of a
    round, is it the estimate ``bootstraps`` that the actor made of it, by the version it sampled
    with. The value bootstrapped from is then as many versions old as the row, like that of a target
    network, and at lag 0 exact. Advantages are never normalised: their mean is a baseline only for
    rows that the newest policy sampled.
    """

    reads: ClassVar[tuple[str, ...]] = ("actions", "rewards", "log_probs", "bootstraps")

    def __init__(
        self,
        *,
        clip_rho: float = 1.0,
        clip_c: float = 1.0,
        max_grad_norm: float | None = 40.0,
        optimiser: Stepping = "adam",
        **settings: Any,
    ) -> None:
        super().__init__(max_grad_norm=max_grad_norm, optimiser=optimiser, **settings)
        self.clip_rho, self.clip_c = clip_rho, clip_c

    def out_of_range(self) -> Iterator[str]:
        """See ``TorchLearner.out_of_range``."""
        yield from super().out_of_range()
        yield from bounds(clip_rho=self.clip_rho, clip_c=self.clip_c)

    def _estimates(self, batch: Batch, log_probs: Floats, values: Floats) -> tuple[Floats, Floats]:
        ratios = log_probs - batch.gather("log_probs")
        known = self._known(batch, values)
        return vtrace(ratios, **known, clip_rho=self.clip_rho, clip_c=self.clip_c)
