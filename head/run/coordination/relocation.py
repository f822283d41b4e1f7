"""What becomes of an actor's rows when it leaves a node."""

from __future__ import annotations

from collections.abc import Iterator

from head.run.coordination.ports import Ports
from head.run.coordination.state import RunState
from triggers.data_key import DataKeyTrigger
from triggers.engine import Engine
from triggers.events import Rewound


class Relocation:
    """Keeps an actor's rows up to a border; what lies beyond is sampled again at its next place."""

    def __init__(self, ports: Ports, state: RunState, engine: Engine) -> None:
        self._plan, self._rounds, self._claims = state.plan, state.rounds, state.claims
        self._intake, self._journal, self._engine = ports.intake, ports.journal, engine

    def move(self, actor: int, term: int, committed: int, node: str) -> range:
        """The actor leaves ``node``, where it ``committed`` so many rows; its next term begins.

        The journal lists the rows that it was asked for there and that it samples elsewhere: at
        least the first ``lost`` had been committed; more, if the node was gone before it said so.

        Returns:
            The rows that are lost; the actor begins its next place with the first of them.
        """
        base = self._border(actor)
        self._intake.rewind(actor, term, base)
        self._rounds.wrote(actor, base)
        # A node may say what it likes, but a cache holds no more than that.
        most = base + 2 * self._plan.capacity
        lost = range(base, max(base, min(committed, most)))
        granted = self._rounds.granted_to(actor)
        if lost or (node and granted > base):
            facts = {"lost": len(lost), "actor": actor, "node": node, "from": base}
            self._journal.write(facts | {"granted": granted})
        self._engine.feed(Rewound(actor, base))
        return lost

    def _border(self, actor: int) -> int:
        """The last row up to which all are there that ends a round, or was handed over as a last.

        So a round is of one place, unless the learner has begun to use it. Whoever samples rows as
        they come, without claims, loses none of them.
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
