"""What is kept of an actor's rows when it goes on at another place."""

from __future__ import annotations

from collections.abc import Iterator

from head.run.coordination.ports import Ports
from head.run.coordination.state import RunState
from triggers.base import Rewound
from triggers.engine import Engine
from triggers.primitives import DataKeyTrigger


class Relocation:
    """Keeps an actor's rows up to a border; the rows beyond are sampled again at its next place."""

    def __init__(self, ports: Ports, state: RunState, engine: Engine) -> None:
        self._plan, self._rounds, self._claims = state.plan, state.rounds, state.claims
        self._row_source, self._journal, self._engine = ports.row_source, ports.journal, engine

    def move(self, actor: int, term: int, committed: int, node: str) -> range:
        """The actor leaves ``node``, where it ``committed`` so many rows; its next term begins.

        The journal has the range of granted rows that the actor samples again elsewhere. At least
        the first ``lost`` of them had been committed, more if the node died before it reported so.

        Returns:
            The rows that are lost; the actor's next place begins with the first of them.
        """
        base = self._border(actor)
        self._row_source.rewind(actor, term, base)
        self._rounds.wrote(actor, base)
        # A node may report any number, but a cache holds no more rows than this.
        most = base + 2 * self._plan.capacity
        lost = range(base, max(base, min(committed, most)))
        granted = self._rounds.granted_to(actor)
        if lost or (node and granted > base):
            facts = {"lost": len(lost), "actor": actor, "node": node, "from": base}
            self._journal.write(facts | {"granted": granted})
        self._engine.feed(Rewound(actor, base))
        return lost

    def _border(self, actor: int) -> int:
        """The last end of a round, or of a claim, up to which all rows have arrived.

        So a round comes from one place, unless the learner has begun to use it. A learner that
        draws rows without claims keeps all rows that have arrived.
        """
        rows = self._rounds.written_by(actor)
        if not self._plan.consumers:
            return rows
        whole = rows - rows % self._plan.steps
        return max([whole, *(stop for stop in self._claimed(actor) if stop <= rows)])

    def _claimed(self, actor: int) -> Iterator[int]:
        for wrapper in self._engine.wrappers:
            for part in wrapper.trigger.parts():
                if isinstance(part, DataKeyTrigger):
                    yield part.taken(actor)
        for consumer in self._plan.consumers:
            yield self._claims.claimed(consumer.name, actor)
