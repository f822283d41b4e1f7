"""What the triggers are told of actors' rows: as they are committed here, or arrive from nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from artos.buffer.actor_block import ActorBlock
from artos.buffer.doorbell import ordered
from artos.spec import VERSION_KEY
from triggers.events import Arrived, Committed

Rows = Committed | Arrived


class RowSource(Protocol):
    """Looks at an actor's block when something in it changed.

    ``in_place``: actors write to these blocks themselves, so one without room waits.
    """

    in_place: bool

    def news(self, actor: int) -> tuple[int, list[Rows]]:
        """Rows that are there in all keys, and what is new since the last call, in order."""

    def rewind(self, actor: int, term: int, rows: int) -> None:
        """From row ``rows`` on the actor's rows come from its next place."""


class Commits:
    """Head and workers share the blocks: rows are in the replay buffer as soon as committed.

    With a transfer in the table (``shipped``) they only count as arrived once that has fired.
    """

    in_place = True

    def __init__(self, blocks: Mapping[int, ActorBlock], *, shipped: bool) -> None:
        self._blocks, self._shipped = blocks, shipped
        self._told = dict.fromkeys(blocks, 0)

    def news(self, actor: int) -> tuple[int, list[Rows]]:
        """See ``RowSource.news``."""
        block = self._blocks[actor]
        written = {name: header.written for name, header in block.headers.items()}
        rows = min(written.values())
        told, self._told[actor] = self._told[actor], rows
        events: list[Rows] = []
        for stop, version in _runs(block, told, rows):
            upto = written if stop == rows else dict.fromkeys(written, stop)
            events.append(Committed(actor, upto, version))
            if not self._shipped:
                events.append(Arrived(actor, upto, version))
        return rows, events

    def rewind(self, actor: int, term: int, rows: int) -> None:
        """Never: an actor of this machine stays where it is."""


class Arrivals:
    """Rows come from worker nodes, key by key, into the head's blocks; that is all that counts.

    The block's ``incarnation`` is the term of the place that its rows come from: while it is
    another one than that of the actor's present place, nothing in the block is looked at.
    """

    in_place = False

    def __init__(self, blocks: Mapping[int, ActorBlock]) -> None:
        self._blocks = blocks
        self._told = {actor: dict.fromkeys(block.headers, 0) for actor, block in blocks.items()}
        self._terms = dict.fromkeys(blocks, 0)

    def news(self, actor: int) -> tuple[int, list[Rows]]:
        """See ``RowSource.news``; keys may arrive at different times."""
        block, told = self._blocks[actor], self._told[actor]
        grown: dict[tuple[int, int], list[str]] = {}
        for name, rows in self._arrived(actor).items():
            if rows > told[name]:
                grown.setdefault((told[name], rows), []).append(name)
                told[name] = rows
        events: list[Rows] = [
            Arrived(actor, dict.fromkeys(names, stop), version)
            for span, names in grown.items()
            for stop, version in _runs(block, *span)
        ]
        return min(told.values()), events

    def _arrived(self, actor: int) -> Mapping[str, int]:
        block = self._blocks[actor]
        if block.incarnation != self._terms[actor]:
            return {}
        ordered()
        # The version first: events are cut where it changes, so only rows that have one count.
        known = block.headers[VERSION_KEY].written
        ordered()
        return {name: min(header.written, known) for name, header in block.headers.items()}

    def rewind(self, actor: int, term: int, rows: int) -> None:
        """See ``RowSource.rewind``; nothing is looked at until the block is of that term."""
        self._terms[actor] = term
        self._told[actor] = {name: min(told, rows) for name, told in self._told[actor].items()}


def _runs(block: ActorBlock, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Rows ``start`` to ``stop`` cut where the version changes; those overwritten are left out."""
    if start == stop:
        return iter(())
    return block.version_runs(min(max(start, block.oldest()), stop - 1), stop)
