"""Which rows of which chunks are taken: each row once and in order, of the actor's present place.

Decisions only. What has been taken is in the blocks, so a receiver that starts anew forgets nothing
that matters: it takes nothing of a node before that has greeted it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from artos.errors import BadMessage
from artos.protocol.data import Chunk, Greet, RowsTaken

_BUDGET = 256 << 20
_MOST_CREDIT = 8 << 20
_LEAST_CREDIT = 1 << 20


class Standing(NamedTuple):
    """How an actor stands: the term of its place, rows per key, and where its room ends."""

    term: int
    written: Mapping[str, int]
    room: int


class Receiver:
    """One replay process's rules. ``standing`` looks up an actor (None: not one of this process).

    ``row_bytes`` are the bytes of a row per key. ``count`` is told of every chunk that is not
    taken: ``stale`` (of a former place, or of a node that has not greeted yet), ``gap`` (rows
    before it are missing) or ``repeated``.
    """

    def __init__(
        self,
        epoch: int,
        row_bytes: Mapping[str, int],
        standing: Callable[[int], Standing | None],
        count: Callable[[str], None],
    ) -> None:
        self._epoch, self._row_bytes, self._standing = epoch, row_bytes, standing
        self._count = count
        self._greeted: set[str] = set()
        self._homes: dict[int, str] = {}
        self._nodes: dict[int, str] = {}
        self._told: dict[int, int] = {}

    @property
    def credit(self) -> int:
        """Bytes that each node may have on their way: less the more nodes there are."""
        share = _BUDGET // max(1, len(self._greeted))
        return max(_LEAST_CREDIT, min(_MOST_CREDIT, share))

    def settle(self, nodes: Mapping[int, str]) -> None:
        """From now on the rows of these actors come from these nodes, and from no other."""
        self._nodes |= nodes
        for actor, node in nodes.items():
            if self._homes.get(actor) != node:
                self._homes.pop(actor, None)

    def _may_ship(self, who: str, actor: int) -> bool:
        return self._nodes.get(actor, who) == who

    def greet(self, who: str, greet: Greet) -> list[RowsTaken]:
        """A node begins (anew): what it must know about its actors.

        Raises:
            BadMessage: it belongs to another life of the run.
        """
        if greet.epoch != self._epoch:
            raise BadMessage(f"this is epoch {self._epoch} of the run, not {greet.epoch}")
        self._greeted.add(who)
        known = {
            actor: standing
            for actor, term in greet.terms.items()
            if (standing := self._standing(actor)) is not None
            and (term != standing.term or self._may_ship(who, actor))
        }
        # Who had an actor once may greet late: the news are for the node that has it now.
        at_home = [actor for actor, each in known.items() if each.term == greet.terms[actor]]
        self._homes |= dict.fromkeys(at_home, who)
        self._told |= {actor: known[actor].room for actor in at_home}
        return [self._news(actor, standing, greet.number) for actor, standing in known.items()]

    def home(self, actor: int) -> str | None:
        """The node that has the actor, if that has greeted since this process began."""
        return self._homes.get(actor)

    def arrivals(self, actor: int) -> RowsTaken:
        """What the actor's home must know now."""
        standing = self._standing(actor)
        assert standing is not None
        self._told[actor] = standing.room
        return self._news(actor, standing)

    def roomier(self) -> list[int]:
        """Actors that have more room than their homes know of."""
        now = {actor: self._standing(actor) for actor in self._homes}
        return [a for a, each in now.items() if each is not None and each.room > self._told[a]]

    def _news(self, actor: int, standing: Standing, answers: int = 0) -> RowsTaken:
        term, written, room = standing
        return RowsTaken(actor, term, dict(written), room, self.credit, answers)

    def outdated(self, chunk: Chunk) -> RowsTaken | None:
        """What the sender of a chunk must hear if the actor lives elsewhere by now."""
        standing = self._standing(chunk.actor)
        if standing is None or chunk.term >= standing.term:
            return None
        return self._news(chunk.actor, standing)

    def admit(self, who: str, chunk: Chunk, sizes: Sequence[int]) -> range:
        """The rows of a chunk that are to be taken: none if it brings nothing new.

        Args:
            who: whom it is from.
            chunk: its description.
            sizes: bytes of its frames.

        Raises:
            BadMessage: it contradicts itself, the workload, or what its sender was told.
        """
        standing = self._standing(chunk.actor)
        if standing is None:
            raise BadMessage(f"actor {chunk.actor} belongs elsewhere")
        if who not in self._greeted or chunk.term < standing.term:
            return self._nothing("stale")
        if not self._may_ship(who, chunk.actor):
            raise BadMessage(f"actor {chunk.actor} lives on another node")
        if faults := self._faults(chunk, sizes) or _beyond(chunk, standing):
            raise BadMessage(f"chunk of actor {chunk.actor}: {'; '.join(faults)}")
        first = standing.written[chunk.keys[0]]
        if chunk.start > first:
            return self._nothing("gap")
        if chunk.stop <= first:
            return self._nothing("repeated")
        return range(first, chunk.stop)

    def _nothing(self, why: str) -> range:
        self._count(why)
        return range(0)

    def _faults(self, chunk: Chunk, sizes: Sequence[int]) -> list[str]:
        unknown = [name for name in chunk.keys if name not in self._row_bytes]
        if unknown or not chunk.keys or len({*chunk.keys}) != len(chunk.keys):
            return [f"keys {', '.join(chunk.keys) or 'missing'}"]
        if not 0 <= chunk.start < chunk.stop:
            return [f"rows {chunk.start} to {chunk.stop}"]
        if not len(chunk.keys) == len(chunk.raw) == len(chunk.packed) == len(sizes):
            return [f"{len(sizes)} frames for {len(chunk.keys)} keys"]
        rows = chunk.stop - chunk.start
        parts = zip(chunk.keys, chunk.raw, chunk.packed, sizes, strict=True)
        return [
            f"{size} of {raw} bytes of key {name!r}"
            for name, raw, packed, size in parts
            if raw != rows * self._row_bytes[name] or (not packed and size != raw)
        ]


def _beyond(chunk: Chunk, standing: Standing) -> list[str]:
    if chunk.term > standing.term:
        return [f"term {chunk.term} has not begun, {standing.term} has"]
    if chunk.stop > standing.room:
        return [f"rows up to {chunk.stop} where there is room up to {standing.room}"]
    if len({standing.written[name] for name in chunk.keys}) > 1:
        return [f"keys {', '.join(chunk.keys)} have not come together so far"]
    return []
