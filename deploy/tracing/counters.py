"""What there is how much of at a time, from what members of a run did when. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from artos.specs.members import ACTORS, actor_of
from deploy.tracing.events import Event

_HELD = 10_000
"""Begins and ends of rounds that are sorted at a time: the journal tells of both at the end."""
_RANGE = 3
"""Numbers of a claim that is of rows of all environments."""


class Counters:
    """Adds counters to the events of a trace, read from the beginning of a journal.

    ``fill`` are the rows that actors have sampled and no trigger has handed over or dropped; there
    is none where samplers draw rows, or whole episodes are handed over. ``slots`` are the actors at
    work.
    """

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._sampled: dict[int, int] = {}
        self._taken: dict[int, int] = {}
        self._edges: list[tuple[float, int]] = []
        self._held = 0

    def of(self, events: Iterable[Event]) -> Iterator[Event]:
        """These events with counters between them; those of slots come late, as they may here."""
        for event in events:
            yield event
            match event["ph"]:
                case "M" if event["name"] == "thread_name":
                    self._names[event["tid"]] = event["args"]["name"]
                case "X" if event["cat"] == ACTORS:
                    yield from self._worked(event)
                case "X" if event["cat"] == "firing":
                    yield from self._fired(event)
                case "i" if "lost" in event["args"]:
                    yield from self._lost(event)
                case _:
                    pass
        while self._edges:
            yield self._edge()

    def _worked(self, event: Event) -> Iterator[Event]:
        begin, end = event["ts"], event["ts"] + event["dur"]
        if end > begin:
            heappush(self._edges, (begin, 1))
            heappush(self._edges, (end, -1))
        while len(self._edges) > _HELD:
            yield self._edge()
        actor = actor_of(self._names[event["tid"]])
        stop = event["args"].get("ended") or event["args"].get("stop", 0)
        if actor is not None and stop > self._sampled.get(actor, 0):
            self._sampled[actor] = stop
            yield from self._fill(end)

    def _edge(self) -> Event:
        at, change = heappop(self._edges)
        self._held = max(0, self._held + change)
        return _counter("slots", at, held=self._held)

    def _fired(self, event: Event) -> Iterator[Event]:
        found = [claim for kind in ("claims", "dropped") for claim in event["args"].get(kind, ())]
        ranges = [claim for claim in found if len(claim) == _RANGE]
        for actor, _, end in ranges:
            self._taken[actor] = max(self._taken.get(actor, 0), end)
        if ranges:
            yield from self._fill(event["ts"])

    def _lost(self, event: Event) -> Iterator[Event]:
        actor, left = event["args"].get("actor"), event["args"].get("from")
        if isinstance(left, int) and left < self._sampled.get(actor, 0):
            self._sampled[actor] = left
            yield from self._fill(event["ts"])

    def _fill(self, at: float) -> Iterator[Event]:
        if self._taken:
            left = ((self._taken.get(a, 0), stop) for a, stop in self._sampled.items())
            yield _counter("fill", at, rows=sum(max(0, stop - taken) for taken, stop in left))


def _counter(name: str, at: float, **values: float) -> Event:
    return {"ph": "C", "pid": 1, "tid": 0, "ts": round(at, 3), "name": name, "args": values}
