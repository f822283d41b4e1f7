"""Which weights each actor has, and when it is to bind newer ones. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from artos.protocol.invocations import Invoke
from head.run.coordination.books import Claims, Rounds
from triggers.targets import parsed

_NONE: Mapping[str, int] = {}  # a plain one, as it is saved with the books


class Binding:
    """Decides whether an actor binds the newest weights with its next round, or beforehand.

    If the table has no ``actors.sync`` (``each_round``), actors bind before every round. Otherwise
    they keep their weights until that trigger fires, unless a ``max_lag`` of the table, which is
    the stronger promise, would have the rows dropped: they would be sampled for nothing, and as the
    learner would wait for rows in vain, no new version would ever make ``actors.sync`` fire.

    An actor binds the newest weights there are, so while one pull is unanswered a second is kept
    back. If the first was made too early, the second follows: when the first is answered, or before
    the next round, whichever comes first.
    """

    def __init__(
        self, held: Mapping[int, int], max_lags: Sequence[tuple[str, int, int]],
        drawn_lags: Mapping[str, int] = _NONE, *, each_round: bool,
    ) -> None:  # fmt: skip
        self._held, self._each_round = held, each_round
        self.bound(max_lags, drawn_lags)
        self._asked = dict.fromkeys(held, -1)
        self._others: dict[int, Mapping[str, int]] = dict.fromkeys(held, _NONE)
        self._pulls: dict[int, Invoke] = {}

    def bound(
        self, max_lags: Sequence[tuple[str, int, int]], drawn_lags: Mapping[str, int]
    ) -> None:
        """Rows may be so old from now on."""
        self._max_lags, self._drawn_lags = max_lags, drawn_lags

    def joined(self, actor: int) -> None:
        """The actor joins: it has missed the pulls of the others."""
        self._asked[actor], self._others[actor] = -1, _NONE

    def asked(self, actor: int, newest: int, others: Mapping[str, int] = _NONE) -> None:
        """The actor is to bind version ``newest`` or a newer one, and such ones of the others."""
        self._asked[actor], self._others[actor] = newest, others

    def oldest(self, actor: int) -> int:
        """The oldest version that the actor's next round may have; -1: it has none yet."""
        return max(self._held[actor], self._asked[actor])

    def is_due(
        self, actor: int, trained: int, rounds: Rounds, claims: Claims,
        others: Mapping[str, int] = _NONE,
    ) -> bool:  # fmt: skip
        """Whether the actor binds before the round that was just granted.

        ``trained``: the newest version once the learner is done with all rows handed over; of the
        ``others`` by name. The round's last row must not exceed a ``max_lag``, even if its learner
        made no update from rows of other actors.
        """
        version, stop = self.oldest(actor), rounds.granted_to(actor)
        if self._each_round or version < 0:
            return True
        has = self._others[actor]
        behind = {name: newest - has.get(name, -1) for name, newest in others.items()}
        return any(
            behind.get(name, trained - version) > most for name, most in self._drawn_lags.items()
        ) or any(
            behind.get(parsed(target).role, trained - version)
            + (stop - claims.claimed(target, actor) - 1) // size > most
            for target, size, most in self._max_lags
        )  # fmt: skip

    def pull(self, actor: int, pull: Invoke, last: Invoke | None) -> Invoke | None:
        """A pull that is to be sent now; ``last`` is what the actor was sent last and still has."""
        if last is None or last.stop:
            return pull
        self._pulls[actor] = pull
        return None

    def before_round(self, actor: int) -> Invoke | None:
        """A pull that was kept back, and comes before the round that is granted now."""
        return self._pulls.pop(actor, None)

    def answered(self, actor: int, newest: int, last: Invoke | None) -> Invoke | None:
        """A pull that was kept back, if the actor needs it now that it has answered."""
        if last is not None or actor not in self._pulls:
            return None
        pull = self._pulls.pop(actor)
        return pull if self._held[actor] < newest else None

    def __repr__(self) -> str:
        return f"<Binding held={dict(self._held)}>"
