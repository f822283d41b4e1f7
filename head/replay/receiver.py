"""Decides which rows of chunks are taken: each row once, in order, from the actor's present node.

Rows that were taken are in the blocks, so a restarted receiver needs no other memory: it takes
nothing from a node before the node has greeted it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from artos.errors import BadMessage
from artos.protocol.data import Answered, Chunk, Greet, RowsTaken

_BUDGET = 256 << 20
_MOST_CREDIT = 8 << 20
_LEAST_CREDIT = 1 << 20


class ActorState(NamedTuple):
    """An actor's term, the rows written of each key, and the row up to which there is room."""

    term: int
    written: Mapping[str, int]
    room: int


class Receiver:
    """The rules of one replay process. ``state`` looks up an actor (None: there is no such actor).

    ``row_bytes`` has the bytes of a row of each key. ``count`` is called with the reason for every
    chunk that is not taken: ``stale`` (of a former node, or of a node that has not greeted yet),
    ``gap`` (earlier rows are missing, or answers that these were made from) or ``repeated``.
    ``has`` says whether a node's answers are here.
    """

    def __init__(
        self,
        epoch: int,
        row_bytes: Mapping[str, int],
        state: Callable[[int], ActorState | None],
        count: Callable[[str], None],
        has: Callable[[str, Answered], bool] = lambda who, answered: not answered,
    ) -> None:
        self._epoch, self._row_bytes, self._state_of = epoch, row_bytes, state
        self._count, self._has = count, has
        self._greeted: set[str] = set()
        self._current_nodes: dict[int, str] = {}
        self._nodes: dict[int, str] = {}
        self._room_told: dict[int, int] = {}

    @property
    def credit(self) -> int:
        """Bytes that each node may have under way: the more nodes, the fewer."""
        share = _BUDGET // max(1, len(self._greeted))
        return max(_LEAST_CREDIT, min(_MOST_CREDIT, share))

    def set_nodes(self, nodes: Mapping[int, str]) -> None:
        """Take the rows of these actors only from these nodes from now on (actor → node)."""
        self._nodes |= nodes
        for actor, node in nodes.items():
            if self._current_nodes.get(actor) != node:
                self._current_nodes.pop(actor, None)

    def _may_ship(self, who: str, actor: int) -> bool:
        return self._nodes.get(actor, who) == who

    def greet(self, who: str, greet: Greet) -> list[RowsTaken]:
        """Take a node's greeting; returns what the node must know about its actors.

        Raises:
            BadMessage: it belongs to another epoch of the run.
        """
        if greet.epoch != self._epoch:
            raise BadMessage(f"this is epoch {self._epoch} of the run, not {greet.epoch}")
        self._greeted.add(who)
        known = {
            actor: state
            for actor, term in greet.terms.items()
            if (state := self._state_of(actor)) is not None
            and (term != state.term or self._may_ship(who, actor))
        }
        # A former node of an actor may greet late: only the present one is kept informed.
        current = [actor for actor, each in known.items() if each.term == greet.terms[actor]]
        self._current_nodes |= dict.fromkeys(current, who)
        self._room_told |= {actor: known[actor].room for actor in current}
        return [self._rows_taken(actor, state, greet.number) for actor, state in known.items()]

    def has_greeted(self, who: str) -> bool:
        """Whether the node has greeted since this process began."""
        return who in self._greeted

    def node_of(self, actor: int) -> str | None:
        """The node that has the actor, if the node has greeted since this process began."""
        return self._current_nodes.get(actor)

    def rows_taken(self, actor: int) -> RowsTaken:
        """What the actor's node must know now."""
        state = self._state_of(actor)
        assert state is not None
        self._room_told[actor] = state.room
        return self._rows_taken(actor, state)

    def with_more_room(self) -> list[int]:
        """Actors that have more room than their nodes know of."""
        now = {actor: self._state_of(actor) for actor in self._current_nodes}
        return [a for a, each in now.items() if each is not None and each.room > self._room_told[a]]

    def _rows_taken(self, actor: int, state: ActorState, answers: int = 0) -> RowsTaken:
        term, written, room = state
        return RowsTaken(actor, term, dict(written), room, self.credit, answers)

    def outdated(self, chunk: Chunk) -> RowsTaken | None:
        """The answer to the sender of a chunk of an older term; None if the term is not older."""
        state = self._state_of(chunk.actor)
        if state is None or chunk.term >= state.term:
            return None
        return self._rows_taken(chunk.actor, state)

    def admit(self, who: str, chunk: Chunk, sizes: Sequence[int]) -> range:
        """The rows of a chunk that are to be taken; none if the chunk brings nothing new.

        Args:
            who: the sender's name.
            chunk: the chunk.
            sizes: bytes of its parts.

        Raises:
            BadMessage: the chunk contradicts itself, the workload, or what its sender was told.
        """
        state = self._state_of(chunk.actor)
        if state is None:
            raise BadMessage(f"the run has no actor {chunk.actor}")
        if not self.has_greeted(who) or chunk.term < state.term:
            return self._nothing("stale")
        if not self._may_ship(who, chunk.actor):
            raise BadMessage(f"actor {chunk.actor} lives on another node")
        if faults := self._faults(chunk, sizes, state):
            raise BadMessage(f"chunk of actor {chunk.actor}: {'; '.join(faults)}")
        first = state.written[chunk.keys[0]]
        if chunk.start > first or not self._has(who, chunk.answered):
            return self._nothing("gap")
        if chunk.stop <= first:
            return self._nothing("repeated")
        return range(first, chunk.stop)

    def _nothing(self, why: str) -> range:
        self._count(why)
        return range(0)

    def _faults(self, chunk: Chunk, sizes: Sequence[int], state: ActorState) -> list[str]:
        unknown = [name for name in chunk.keys if name not in self._row_bytes]
        if unknown or not chunk.keys or len({*chunk.keys}) != len(chunk.keys):
            return [f"keys {', '.join(chunk.keys) or 'missing'}"]
        if not 0 <= chunk.start < chunk.stop:
            return [f"rows {chunk.start} to {chunk.stop}"]
        if not len(chunk.keys) == len(chunk.raw) == len(chunk.packed) == len(sizes):
            return [f"{len(sizes)} parts for {len(chunk.keys)} keys"]
        rows = chunk.stop - chunk.start
        parts = zip(chunk.keys, chunk.raw, chunk.packed, sizes, strict=True)
        faults = [
            f"{size} of {raw} bytes of key {name!r}"
            for name, raw, packed, size in parts
            if raw != rows * self._row_bytes[name] or (not packed and size != raw)
        ]
        if faults:
            return faults
        if chunk.term > state.term:
            faults.append(f"term {chunk.term} has not begun, {state.term} has")
        elif chunk.stop > state.room:
            faults.append(f"rows up to {chunk.stop} where there is room up to {state.room}")
        elif len({state.written[name] for name in chunk.keys}) > 1:
            faults.append(f"keys {', '.join(chunk.keys)} have come separately so far")
        return faults
