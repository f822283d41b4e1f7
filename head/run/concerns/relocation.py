"""What is kept of an actor's rows when it goes on at another place."""

from __future__ import annotations

from collections.abc import Iterator

from artos.specs.members import ACTORS, Member
from head.run.coordination.concern import Concern
from head.run.run import Run
from triggers.events import Rewound


class Relocation(Concern[Run]):
    """Keeps an actor's rows up to a border; the rows beyond are sampled again at its next place."""

    @property
    def published(self) -> int:
        """The newest policy version that actors can have."""
        return self.run.published

    def place_anew(self, actor: int, term: int, committed: int, node: str) -> int:
        """The actor leaves ``node``, where it ``committed`` so many rows; its next term begins.

        The journal has the range of granted rows that the actor samples again elsewhere. At least
        the first ``lost`` of them had been committed, more if the node died before it reported so.

        Returns:
            The first row of its next place.
        """
        run = self.run
        run.look(Member(ACTORS, actor))
        base = self._border(actor)
        run.ports.row_source.rewind(actor, term, base)
        run.rounds.wrote(actor, base)
        # A node may report any number, but a cache holds no more rows than this.
        lost = max(0, min(committed - base, 2 * run.plan.capacity))
        granted = run.rounds.granted_to(actor)
        if lost or (node and granted > base):
            facts = {"lost": lost, "actor": actor, "node": node, "from": base}
            run.ports.journal.write(facts | {"granted": granted})
        run.engine.feed(Rewound(actor, base))
        run.monitor.rows_lost += lost * run.plan.envs
        return base

    def restarting(self, member: Member) -> None:
        """The actor is started at its next place without having failed; it reports ``Ready``."""
        self.run.roster.lost(member)
        self.run.roster.started(member)

    def _border(self, actor: int) -> int:
        """The last end of a round, or of a claim, up to which all rows have arrived.

        So a round comes from one place, unless the learner has begun to use it. A learner that
        draws rows without claims keeps all rows that have arrived.
        """
        rows, plan = self.run.rounds.written_by(actor), self.run.plan
        if not plan.consumers:
            return rows
        whole = rows - rows % plan.steps
        return max([whole, *(stop for stop in self._claimed(actor) if stop <= rows)])

    def _claimed(self, actor: int) -> Iterator[int]:
        for wrapper in self.run.engine.wrappers:
            yield from (part.taken(actor) for part in wrapper.trigger.parts())
        for consumer in self.run.plan.consumers:
            yield self.run.claims.claimed(consumer.name, actor)
