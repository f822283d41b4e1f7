"""Which weights actors hold, and which rounds begin with newer ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from head.run.coordination.ledger import Claims, Rounds


class WeightVersions:
    """Per actor the version it holds (-1: none), and whether it binds the newest for a round.

    ``each_round``: without an ``actors.sync`` of their own, actors do so at rollout start. With one
    they keep what they have until that fires, unless a ``max_lag`` of the table, which is the
    stronger promise, would have the rows dropped: then they would be sampled for nothing, and with
    a learner that waits for rows in vain no further version would ever make that trigger fire.
    """

    def __init__(
        self, actors: Iterable[int], rounds: Rounds, claims: Claims,
        max_lags: Sequence[tuple[str, int, int]], *, each_round: bool,
    ) -> None:  # fmt: skip
        self.held = dict.fromkeys(actors, -1)
        self._asked = dict(self.held)
        self._rounds, self._claims, self._each_round = rounds, claims, each_round
        self._max_lags = max_lags

    def joined(self, actor: int) -> None:
        """Who was away has missed what others pulled meanwhile."""
        self.held[actor] = self._asked[actor] = -1

    def asked(self, actor: int, newest: int) -> None:
        """The actor is to bind the newest version, or one that is newer by then."""
        self._asked[actor] = newest

    def answered(self, actor: int, version: int) -> None:
        """The actor has done something, with weights of this version."""
        self.held[actor] = version

    def next(self, actor: int) -> int:
        """The version of the next round at the least."""
        return max(self.held[actor], self._asked[actor])

    def due(self, actor: int, trained: int) -> bool:
        """Whether the round that was just granted begins with newer weights.

        ``trained``: the newest version once the learner is done with what was handed over.
        """
        version = self.next(actor)
        return self._each_round or version < 0 or self._too_old(actor, trained - version)

    def _too_old(self, actor: int, behind: int) -> bool:
        """Whether the end of the round would be, even if no update were made of others' rows."""
        stop = self._rounds.granted_to(actor)
        return any(
            behind + (stop - self._claims.claimed(target, actor) - 1) // size > max_lag
            for target, size, max_lag in self._max_lags
        )

    def __repr__(self) -> str:
        return f"<WeightVersions held={self.held}>"
