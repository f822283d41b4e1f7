"""Advantages by claim: computed when the rewards have come, used when the observations have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from artos.buffer.actor_block import ActorBlock
from artos.buffer.mailbox import ordered
from artos.buffer.samplers.batch import Batch
from artos.losses.gae import Floats, advantages
from artos.protocol.invocations import Claim

Pair = tuple[Floats, Floats]

_KEYS = ("rewards", "values", "bootstraps", "terminations", "truncations")


@dataclass(frozen=True)
class _Entry:
    """What was found for one claim, in which incarnation of its block, beside which claims."""

    pair: Pair
    incarnation: int
    beside: tuple[Claim, ...]


class AdvantageCache:
    """Keeps advantages and returns from when their rows' rewards came until they are learned from.

    An entry counts only while its block is in the incarnation it was computed from: rows of which
    but a part had come when their actor was placed anew may be others by now. What is missing,
    for that reason or because the learner died in between, is computed when it is asked for.
    """

    def __init__(self, blocks: Mapping[int, ActorBlock], gamma: float, lam: float) -> None:
        self._blocks, self._gamma, self._lam = blocks, gamma, lam
        self._entries: dict[Claim, _Entry] = {}

    def add(self, batch: Batch) -> None:
        """Compute and keep advantages and returns of a batch whose other keys may be missing."""
        marks = [self._mark(claim) for claim in batch.claims]
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
        """The claims of the batch that a claim was preprocessed in; none unless all still count."""
        entry = self._entries.get(claim)
        claims = () if entry is None else entry.beside
        return claims if all(self._holds(each) for each in claims) else ()

    def forget(self, claims: Iterable[Claim]) -> None:
        """These rows were learned from: drop them, and older ones of the same actors."""
        stops = {claim.actor: claim.stop for claim in claims}
        for claim in [c for c in self._entries if c.stop <= stops.get(c.actor, 0)]:
            del self._entries[claim]

    def _mark(self, claim: Claim) -> int | None:
        """Its block's incarnation, looked at before its rows are; None if rows are gone by now.

        A block whose actor was placed anew takes back what had come in part, and only then gets
        another incarnation.
        """
        block = self._blocks[claim.actor]
        incarnation = block.incarnation
        ordered()
        return incarnation if block.committed(_KEYS) >= claim.stop else None

    def _holds(self, claim: Claim) -> bool:
        entry = self._entries.get(claim)
        return entry is not None and entry.incarnation == self._blocks[claim.actor].incarnation

    def _compute(self, batch: Batch) -> Pair:
        rewards, values, bootstraps, terminations, truncations = map(batch.gather, _KEYS)
        valid = batch.gather("valid") if "valid" in batch.names else None
        return advantages(
            rewards, values, bootstraps, terminations, truncations, self._gamma, self._lam, valid
        )

    def __repr__(self) -> str:
        return f"<AdvantageCache {len(self._entries)} claims>"
