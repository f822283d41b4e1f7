"""What is kept of an actor's rows when it goes on at another place."""

from __future__ import annotations

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

    @property
    def published_beside(self) -> dict[str, int]:
        """The same of each other learner of which actors read something, by name."""
        return {name: self.run.learners[name].model.version for name in self.run.plan.read_learners}

    def place_anew(
        self, actor: int, term: int, committed: int, node: str, *, goes_on: bool = False
    ) -> int:
        """The actor leaves ``node``, where it ``committed`` so many rows; its next term begins.

        The journal has the range of granted rows that the actor samples again elsewhere. At least
        the first ``lost`` of them had been committed, more if the node died before it reported so.
        One that ``goes_on`` there from where it was keeps all of its rows, which have arrived.

        Returns:
            The first row of its next place.
        """
        run = self.run
        run.look(Member(ACTORS, actor))
        # The last end of a round, or of a claim, up to which all rows have arrived: so a round
        # comes from one place, unless the learner has begun to use it. A learner that draws rows
        # without claims keeps all rows that have arrived.
        there = base = run.rounds.written_by(actor)
        consumers = run.plan.consumers
        # At its first place it goes on where the run before it ended.
        if consumers and node and not goes_on:
            parts = (part for each in run.engine.wrappers for part in each.trigger.parts())
            whole = base - base % run.plan.steps
            if run.plan.short_rounds:
                whole = run.rounds.ends.get(actor, whole)
            ends = [whole, *(part.taken(actor) for part in parts)]
            ends += [run.claims.claimed(consumer.name, actor) for consumer in consumers]
            base = max(end for end in ends if end <= base)
        run.ports.row_source.rewind(actor, term, base)
        run.rounds.wrote(actor, base)
        # A node may report any number, but a cache holds no more rows than this.
        lost = max(0, min(committed - base, 2 * run.plan.capacity))
        granted = run.rounds.granted_to(actor)
        if lost or (node and granted > base):
            facts = {"lost": lost, "actor": actor, "node": node, "from": base}
            run.ports.journal.write(facts | {"granted": granted})
        if node or base < there:
            run.feed(Rewound(actor, base))
        run.monitor.rows_lost += lost * run.plan.envs
        return base

    def restarting(self, member: Member) -> None:
        """The actor is started at its next place without having failed; it reports ``Ready``."""
        self.run.roster.lost(member)
        self.run.roster.started(member)
