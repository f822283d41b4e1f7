"""Which weights each actor holds, and when it needs newer ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import ClassVar

from head.run.coordination.ledger import Claims, Rounds


class WeightVersions:
    """The version that each actor holds (-1: none), and whether it binds the newest for a round.

    ``each_round``: if the table has no ``actors.sync``, actors bind before every round. Otherwise
    they keep their weights until that trigger fires, unless a ``max_lag`` of the table, which is
    the stronger promise, would have the rows dropped: they would be sampled for nothing, and as the
    learner would wait for rows in vain, no new version would ever make ``actors.sync`` fire.
    ``drawn_lag`` is the ``max_lag`` of rows that are drawn, infinite if there is none.
    """

    kept: ClassVar[tuple[str, ...]] = ("held", "_asked")

    def __init__(
        self,
        actors: Iterable[int],
        rounds: Rounds,
        claims: Claims,
        max_lags: Sequence[tuple[str, int, int]],
        drawn_lag: float = math.inf,
        *,
        each_round: bool,
    ) -> None:
        self.held = dict.fromkeys(actors, -1)
        self._asked = dict(self.held)
        self._rounds, self._claims, self._each_round = rounds, claims, each_round
        self._max_lags, self._drawn_lag = max_lags, drawn_lag

    def joined(self, actor: int) -> None:
        """The actor joins: it has missed the pulls of the others."""
        self.held[actor] = self._asked[actor] = -1

    def asked(self, actor: int, newest: int) -> None:
        """The actor is to bind version ``newest`` or a newer one."""
        self._asked[actor] = newest

    def answered(self, actor: int, version: int) -> None:
        """The actor answered an invocation, with weights of this version."""
        self.held[actor] = version

    def next(self, actor: int) -> int:
        """The oldest version that the actor's next round may have."""
        return max(self.held[actor], self._asked[actor])

    def due(self, actor: int, trained: int) -> bool:
        """Whether the actor binds before the round that was just granted.

        ``trained``: the newest version once the learner is done with all rows handed over.
        """
        version = self.next(actor)
        return self._each_round or version < 0 or self._too_old(actor, trained - version)

    def _too_old(self, actor: int, behind: int) -> bool:
        """Whether the round's last row would exceed a ``max_lag``, counting only its own updates.

        That is, even if the learner made no update from rows of other actors.
        """
        stop = self._rounds.granted_to(actor)
        return behind > self._drawn_lag or any(
            behind + (stop - self._claims.claimed(target, actor) - 1) // size > max_lag
            for target, size, max_lag in self._max_lags
        )

    def __repr__(self) -> str:
        return f"<WeightVersions held={self.held}>"
