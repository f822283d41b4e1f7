"""What is known of a batch before all of its rows have come, kept by claim.

Advantages are computed once the rewards have come, and used once the observations have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from artos.buffer.actor_block import ActorBlock
from artos.buffer.doorbell import ordered
from artos.buffer.samplers.batch import Batch
from artos.losses.gae import advantages
from artos.losses.rounds import Floats
from artos.protocol.invocations import Claim

Pair = tuple[Floats, Floats]

_KEYS = ("rewards", "values", "bootstraps", "terminations", "truncations")


@dataclass
class GradientAccumulator:
    """What is known of a full batch before all of its rows have come.

    ``mean``, ``spread`` and ``count`` follow from rewards alone. The optimiser holds the sum until
    it steps.
    """

    claims: tuple[Claim, ...]
    mean: float
    spread: float
    """With ``mean`` it normalises advantages over the full batch."""
    count: float
    """Of valid rows."""
    added: set[Claim] = field(default_factory=set)
    metrics: dict[str, Tensor] = field(default_factory=dict)

    def note(self, claim: Claim, metrics: Mapping[str, Tensor]) -> None:
        """Note that the gradient of a claim's rows was added, and add up their metrics."""
        self.added.add(claim)
        for name, value in metrics.items():
            self.metrics[name] = self.metrics[name] + value if name in self.metrics else value


@dataclass(frozen=True)
class _Entry:
    """Advantages and returns of a claim, its block's incarnation, the claims of its batch."""

    pair: Pair
    incarnation: int
    beside: tuple[Claim, ...]


class AdvantageCache:
    """Keeps advantages and returns from when the rewards come until the rows are learned from.

    An entry is valid only in the incarnation of its block in which it was computed: rows that had
    come only in part when their actor was placed again may be different rows now. Entries that are
    missing, for that reason or because the learner died, are computed when they are asked for.
    ``scaled`` is applied to rewards first.
    """

    def __init__(
        self,
        blocks: Mapping[int, ActorBlock],
        gamma: float,
        lam: float,
        scaled: Callable[[Floats], Floats] = lambda rewards: rewards,
    ) -> None:
        self._blocks, self.gamma, self.lam, self._scaled = blocks, gamma, lam, scaled
        self._entries: dict[Claim, _Entry] = {}

    def add(self, batch: Batch) -> None:
        """Compute and keep advantages and returns of a batch whose other keys may be missing."""
        # The incarnation of each claim's block, read before its rows; None if rows are gone by now.
        # A block whose actor was placed again first takes back rows that had come in part, and only
        # then gets another incarnation.
        marks: list[int | None] = []
        for claim in batch.claims:
            block = self._blocks[claim.actor]
            marks.append(block.incarnation)
            ordered()
            if block.committed(_KEYS) < claim.stop:
                marks[-1] = None
        pairs = zip(*self._compute(batch), strict=True)
        for claim, pair, incarnation in zip(batch.claims, pairs, marks, strict=True):
            if incarnation is not None:
                self._entries[claim] = _Entry(pair, incarnation, batch.claims)

    def of(self, batch: Batch) -> Pair:
        """Advantages and returns of a batch, both (A, T, E) float32."""
        pairs = {claim: self._entries[claim].pair for claim in batch.claims if self._holds(claim)}
        missing = [claim for claim in batch.claims if claim not in pairs]
        if not pairs:
            return self._compute(batch)
        if missing:
            again = self._compute(Batch(self._blocks, missing))
            pairs |= dict(zip(missing, zip(*again, strict=True), strict=True))
        both = [pairs[claim] for claim in batch.claims]
        return np.stack([a for a, _ in both]), np.stack([r for _, r in both])

    def beside(self, claim: Claim) -> tuple[Claim, ...]:
        """The claims of the batch that a claim was preprocessed in; none unless all are valid."""
        entry = self._entries.get(claim)
        claims = () if entry is None else entry.beside
        return claims if all(self._holds(each) for each in claims) else ()

    def forget(self, claims: Iterable[Claim]) -> None:
        """Drop entries of rows that were learned from, and of older rows of the same actors."""
        stops = {claim.actor: claim.stop for claim in claims}
        for claim in [c for c in self._entries if c.stop <= stops.get(c.actor, 0)]:
            del self._entries[claim]

    def _holds(self, claim: Claim) -> bool:
        entry = self._entries.get(claim)
        return entry is not None and entry.incarnation == self._blocks[claim.actor].incarnation

    def _compute(self, batch: Batch) -> Pair:
        known = {name: batch.gather(name) for name in _KEYS}
        known["rewards"] = self._scaled(known["rewards"])
        valid = batch.gather("valid") if "valid" in batch.names else None
        return advantages(**known, gamma=self.gamma, lam=self.lam, valid=valid)

    def __repr__(self) -> str:
        return f"<AdvantageCache {len(self._entries)} claims>"
