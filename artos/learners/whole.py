"""The gradient of a full batch while it is added up, claim by claim, as rows come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from artos.protocol.invocations import Claim


@dataclass
class GradientAccumulator:
    """What is known of a full batch before all of its rows are there.

    ``mean`` and ``spread`` normalise advantages over the whole of it, ``count`` counts its valid
    rows; all three follow from rewards alone. The sum is in the optimiser, until it steps.
    """

    claims: tuple[Claim, ...]
    mean: float
    spread: float
    count: float
    added: set[Claim] = field(default_factory=set)
    metrics: dict[str, Tensor] = field(default_factory=dict)

    def note(self, claim: Claim, metrics: Mapping[str, Tensor]) -> None:
        """The gradient of a claim's rows was added; so are what it contributes to the metrics."""
        self.added.add(claim)
        for name, value in metrics.items():
            self.metrics[name] = self.metrics[name] + value if name in self.metrics else value
