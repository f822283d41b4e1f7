"""Where new rows come from, and the events that tell the triggers of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from artos.buffer.actor_block import ActorBlock
from artos.buffer.doorbell import ordered
from artos.buffer.version_runs import other_versions, version_runs
from artos.specs.keys import VERSION_KEY
from triggers.events import Arrived, Committed

Rows = Committed | Arrived


class RowSource(Protocol):
    """Looks for new rows in an actor's block."""

    in_place: bool
    """Whether actors write to these blocks themselves; if so, they wait for room in them."""

    def news(self, actor: int) -> tuple[int, list[Rows]]:
        """Number of rows present in all keys, and events for rows new since the last call."""

    def rewind(self, actor: int, term: int, rows: int) -> None:
        """From row ``rows`` on, the actor's rows come from its next place (``term``)."""


class Commits:
    """Head and workers share the blocks: rows are in the replay buffer as soon as committed.

    With a transfer trigger (``shipped``) rows only count as arrived once that trigger has fired.
    """

    in_place = True

    def __init__(self, blocks: Mapping[int, ActorBlock], *, shipped: bool) -> None:
        self._blocks, self._shipped = blocks, shipped
        self._told = dict.fromkeys(blocks, 0)

    def news(self, actor: int) -> tuple[int, list[Rows]]:
        """The rows that the actor has committed since the last call, with all keys at once."""
        block = self._blocks[actor]
        # Some keys are further than others while a commit is under way: their rows are not told
        # before they are counted, or those who hear of them are ahead of the books.
        rows = block.written
        told, self._told[actor] = self._told[actor], rows
        events: list[Rows] = []
        for stop, version, versions in _runs(block, told, rows):
            upto = dict.fromkeys(block.headers, stop)
            events.append(Committed(actor, upto, version))
            if not self._shipped:
                events.append(Arrived(actor, upto, version, versions))
        return rows, events

    def rewind(self, actor: int, term: int, rows: int) -> None:
        """Only called for rows of an earlier part of the run: actors of one machine do not move."""
        self._told[actor] = rows


class Arrivals:
    """Rows come from worker nodes, key by key, into the head's blocks; only arrivals count.

    The block's ``incarnation`` is the term of the place that its rows come from. While it is not
    the term of the actor's present place, nothing in the block is read.
    """

    in_place = False

    def __init__(self, blocks: Mapping[int, ActorBlock]) -> None:
        self._blocks = blocks
        self._told = {actor: dict.fromkeys(block.headers, 0) for actor, block in blocks.items()}
        self._terms = dict.fromkeys(blocks, 0)

    def news(self, actor: int) -> tuple[int, list[Rows]]:
        """The rows that have arrived since the last call; keys may arrive at different times."""
        block, told = self._blocks[actor], self._told[actor]
        grown: dict[tuple[int, int], list[str]] = {}
        for name, rows in self._arrived(actor).items():
            if rows > told[name]:
                grown.setdefault((told[name], rows), []).append(name)
                told[name] = rows
        events: list[Rows] = [
            Arrived(actor, dict.fromkeys(names, stop), version, versions)
            for span, names in grown.items()
            for stop, version, versions in _runs(block, *span)
        ]
        return min(told.values()), events

    def _arrived(self, actor: int) -> Mapping[str, int]:
        block = self._blocks[actor]
        if block.incarnation != self._terms[actor]:
            return {}
        ordered()
        # Versions first: events are cut where they change, so only rows that have them count.
        known = min(block.headers[key].written for key in (VERSION_KEY, *other_versions(block)))
        ordered()
        return {name: min(header.written, known) for name, header in block.headers.items()}

    def rewind(self, actor: int, term: int, rows: int) -> None:
        """The actor's rows now come from its next place; none is read before its term begins."""
        self._terms[actor] = term
        self._told[actor] = dict.fromkeys(self._told[actor], rows)


def _runs(block: ActorBlock, start: int, stop: int) -> Iterator[tuple[int, int, Mapping[str, int]]]:
    """Rows ``start`` to ``stop``, cut where a version changes, without overwritten rows."""
    if start == stop:
        return
    others, start = other_versions(block), min(max(start, block.oldest()), stop - 1)
    for end, (version, *more) in version_runs(block, start, stop, (VERSION_KEY, *others)):
        yield end, version, dict(zip(others.values(), more, strict=True))
