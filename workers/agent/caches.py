"""The cache blocks of a site's actors, and which of their rows a trigger wants shipped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import Consumer
from artos.clock import Clock
from artos.transport.chunk import Rings
from triggers.base import Firing
from triggers.engine import Engine
from triggers.events import Began, Committed
from triggers.passers import DirectPasser
from triggers.table import Table
from triggers.wrapper import TriggerWrapper

Fire = Callable[[int, int, int], None]
"""Called with an actor, a stage and the row up to which that stage is to be shipped."""


@dataclass(slots=True)
class _Cache:
    """One actor's block; ``seen`` rows are known to the triggers, ``due`` fired per stage."""

    rings: Rings
    seen: int
    due: list[int]


class Caches:
    """Watches the blocks for commits and keeps the cursors of the stages in them.

    Each stage is a consumer: it claims what fired and acknowledges what arrived. So whoever takes
    over from a dead agent knows which rows fired, and the rows that follow fire as they would have.
    """

    def __init__(
        self, stages: tuple[Consumer, ...], table: Table, clock: Clock, fire: Fire
    ) -> None:
        self._stages, self._fire = stages, fire
        self._stage_of = {key: n for n, stage in enumerate(stages) for key in stage.keys}
        self._caches: dict[int, _Cache] = {}
        passer = DirectPasser(self._fired)
        self._engine = Engine([TriggerWrapper(*item, passer) for item in table.items()], clock)

    @property
    def engine(self) -> Engine:
        """Its triggers, which may wait for a time."""
        return self._engine

    def place(self, actor: int, block: ActorBlock) -> tuple[list[int], list[int]]:
        """The actor's rows are in this block; per stage the rows that fired and that arrived."""
        header = [block.headers[stage.keys[0]] for stage in self._stages]
        cursors = [each.cursor(number) for number, each in enumerate(header)]
        due, arrived = [each[0] for each in cursors], [each[1] for each in cursors]
        self._caches[actor] = _Cache(Rings(block), min(due), due)
        self._engine.feed(Began(actor, min(due)))
        return due, arrived

    def leave(self, actor: int) -> None:
        """The actor lives on another node now: its block here is no longer read."""
        del self._caches[actor]

    def rings(self, actor: int) -> Rings:
        """The rows of an actor as bytes."""
        return self._caches[actor].rings

    def look(self) -> None:
        """See what was committed; what fires is to be shipped."""
        for actor, cache in self._caches.items():
            block = cache.rings.block
            rows = block.written
            if rows > cache.seen:
                start, cache.seen = cache.seen, rows
                for stop, version in block.version_runs(start, rows):
                    written = dict.fromkeys(block.headers, stop)
                    self._engine.feed(Committed(actor, written, version))

    def flush(self) -> None:
        """Have everything shipped that is committed, whatever the triggers wait for."""
        for actor, cache in self._caches.items():
            for stage in range(len(self._stages)):
                self._ship(actor, stage, cache.rings.block.written)

    def arrived(self, actor: int, stage: int, rows: int) -> None:
        """So many rows of a stage are in the replay buffer: the actor may write over them."""
        cache = self._caches[actor]
        cache.rings.block.acknowledge(self._stages[stage].name, cache.due[stage], rows)

    def _fired(self, firing: Firing) -> None:
        for stage in dict.fromkeys(self._stage_of[key] for key in firing.keys):
            for claim in firing.claims:
                if claim.actor in self._caches:  # it may have left with rows that never fired
                    self._ship(claim.actor, stage, claim.stop)

    def _ship(self, actor: int, stage: int, stop: int) -> None:
        cache = self._caches[actor]
        if stop <= cache.due[stage]:
            return
        cache.due[stage] = stop
        block, name = cache.rings.block, self._stages[stage]
        _, acknowledged = block.headers[name.keys[0]].cursor(stage)
        block.acknowledge(name.name, stop, acknowledged)
        self._fire(actor, stage, stop)
