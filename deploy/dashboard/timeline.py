"""What the members of a run did in a part of its time, from its journal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import inf
from typing import Any

import msgspec
from msgspec import field

from artos.specs.members import in_order
from deploy.dashboard.rare import RareLines, Timed
from deploy.dashboard.reading import Reading
from deploy.tracing.events import Event, Tracer, within
from triggers.journal_index import JournalIndex

_MOST_EXACT = 3 << 19
"""Bytes of a journal that are shown line by line; of more, samples are."""
_COLUMNS, _SAMPLE = 96, 24 << 10
"""Samples of a long time, and bytes of the journal that each takes, or more:"""
_WHOLE = 64 << 10
"""up to so many if all of its time is in them."""
_BEFORE, _BEHIND = 64 << 10, 128 << 10
"""Bytes more, for what causes something in a part, and for what began in it and ended later."""
_MOST_MARKS = 500
"""Of a long time; of more, these are spread evenly over all of them."""
_MICRO = 1e-6


class Span(msgspec.Struct, frozen=True):
    """Something that a member did, or waited for; times in seconds.

    ``kind`` is ``wait``, ``start``, ``part`` (of the update that it lies within), ``rest`` (how an
    actor rested within a wait) or the role.
    """

    member: str
    kind: str
    name: str
    begin: float = field(name="from")
    end: float = field(name="to")
    facts: dict[str, Any] = {}


class Mark(msgspec.Struct, frozen=True):
    """Something that took no time; ``member`` is "" if it concerns all."""

    member: str
    name: str
    at: float
    facts: dict[str, Any] = {}


class Arrow(msgspec.Struct, frozen=True):
    """From a cause to what it caused: a member, or "triggers", and when."""

    name: str
    begin: tuple[str, float] = field(name="from")
    end: tuple[str, float] = field(name="to")


class Column(msgspec.Struct, frozen=True):
    """A part of the time, and how its members spent a sample of it: shares by kind or method."""

    begin: float = field(name="from")
    end: float = field(name="to")
    sampled: tuple[float, float]
    shares: dict[str, dict[str, float]] = {}


class Timeline(msgspec.Struct, frozen=True):
    """A part of a run's time, and what is known of it.

    ``begin`` and ``end`` are those of the whole run, ``since`` and ``until`` of this part. It has
    ``spans``, ``marks`` and ``arrows``; where these were too many it has ``columns`` instead, and
    of the marks deaths, moves, lost rows, new settings, and where the run was resumed. ``damaged``
    counts lines that cannot be understood and are left out.
    """

    begin: float
    end: float
    since: float = field(name="from")
    until: float = field(name="to")
    exact: bool
    members: list[str] = []
    spans: list[Span] = []
    marks: list[Mark] = []
    arrows: list[Arrow] = []
    columns: list[Column] = []
    damaged: int = 0
    marks_left_out: int = 0
    """Those for which there is no room."""
    marks_to_find: float = 0.0
    """The share of this part in which they have not been looked for yet: ask again."""


def timeline(
    index: JournalIndex, since: float, until: float, steps: int = 0, rare: RareLines | None = None
) -> Timeline:
    """What is known of the time from ``since`` to ``until``, in seconds.

    ``rare`` remembers what it found in long journals when it was asked before.

    Raises:
        JournalDamaged: a file of the journal cannot be read or unpacked.
    """
    since = min(max(since, index.begin, 0.0), index.end)
    until = max(min(until, index.end), since)
    begin, end = index.before(since), index.after(until)
    whole = (index.begin, index.end, since, until)
    reading = Reading(index)
    if end - begin <= _MOST_EXACT:
        events = reading.events(begin - _BEFORE, end + _BEHIND, steps)
        found = _exact(within(events, since, until), whole)
    else:
        columns = _columns(index, reading, since, until)
        lines, left = (rare or RareLines()).of(index, begin, end)
        marks = [mark for mark in _marks(lines) if since <= mark.at <= until]
        room = min(len(marks), _MOST_MARKS)
        kept = [marks[n * len(marks) // room] for n in range(room)]
        members = {member for column in columns for member in column.shares}
        members |= {mark.member for mark in kept if mark.member}
        found = Timeline(
            *whole, exact=False, members=rows_in_order(members), marks=kept, columns=columns,
            marks_left_out=len(marks) - room, marks_to_find=left,
        )  # fmt: skip
    return msgspec.structs.replace(found, damaged=reading.damaged)


def _exact(events: Iterator[Event], whole: tuple[float, float, float, float]) -> Timeline:
    names: dict[int, str] = {}
    spans: list[Span] = []
    marks: list[Mark] = []
    arrows: list[Arrow] = []
    tails: dict[int, Event] = {}
    for event in events:
        at, row = _MICRO * event["ts"], event["tid"]
        match event["ph"]:
            case "M":
                if event["name"] == "thread_name":
                    names[row] = event["args"]["name"]
            case "X":
                end, kind = at + _MICRO * event["dur"], event["cat"]
                member, facts = names.get(row, ""), event.get("args", {})
                spans.append(Span(member, kind, event["name"], at, end, facts))
            case "i":
                member = "" if event["s"] == "g" else names.get(row, "")
                marks.append(Mark(member, event["name"], at, event["args"]))
            case "s":
                tails[event["id"]] = event
            case "f":
                tail = tails.pop(event["id"])
                begin = names.get(tail["tid"], ""), _MICRO * tail["ts"]
                arrows.append(Arrow(event["name"], begin, (names.get(row, ""), at)))
            case _:
                pass
    members = rows_in_order(names.values())
    return Timeline(
        *whole, exact=True, members=members, spans=spans, marks=marks, arrows=arrows
    )  # fmt: skip


def _marks(lines: Iterable[Timed]) -> list[Mark]:
    """What these lines, which are rare, tell of a long time."""
    ordered = sorted(lines, key=lambda each: each[0])
    own = ({**line, "t": time} for time, line in ordered if "began" not in line)
    found = _exact(Tracer(begun=True).of(own), (0, 0, 0, 0))
    moved = [Mark(s.member, "moved", s.end, s.facts) for s in found.spans if s.kind == "start"]
    resumed = [Mark("", "resumed", time) for time, line in ordered if "began" in line]
    return sorted([*found.marks, *moved, *resumed], key=lambda mark: mark.at)


def _columns(
    index: JournalIndex, reading: Reading, since: float, until: float
) -> list[Column]:  # fmt: skip
    width = (until - since) / _COLUMNS
    columns = []
    for number in range(_COLUMNS):
        begin = since + number * width
        low, high = index.before(begin), index.after(begin + width)
        if high - low > _WHOLE:
            low, high = index.before(begin + width / 2), index.after(begin + width / 2)
        beside = max(_SAMPLE // 4, (_SAMPLE - (high - low)) // 2)
        found = _exact(reading.events(low - beside, high + beside, 0), (0, 0, 0, 0))
        known = begin if low <= beside else inf
        columns.append(_column(found.spans, begin, begin + width, known))
    return columns


def _column(spans: Sequence[Span], begin: float, end: float, known: float = inf) -> Column:
    """The shares of members' time from the end of the first of these spans to the end of the last.

    Nothing is known before, as what ended first is all that a sample says of that time, but from
    ``known`` on, if that is earlier.
    """
    own = [each for each in spans if each.kind not in ("part", "rest", "firing")]
    rests = [each for each in spans if each.kind == "rest"]
    ends: dict[str, list[float]] = defaultdict(list)
    for each in own:
        ends[each.member].append(each.end)
    since = max(begin, min(chain.from_iterable(ends.values()), default=begin))
    since = min(since, known)
    until = min(end, max(chain.from_iterable(ends.values()), default=begin))
    shares: dict[str, dict[str, float]] = {}
    for each in own:
        # Of each member what lies between the first and the last end that is known of it.
        first = max(since, min(ends[each.member][0], known))
        last = min(until, ends[each.member][-1])
        overlap = min(each.end, last) - max(each.begin, first)
        if overlap > 0 and last > first:
            of_member = shares.setdefault(each.member, {})
            what = "start" if each.kind == "start" else each.name
            if each.kind == "wait":
                who = each.facts.get("who")
                what += f" for {each.facts['for']}" + (f": {who}" if who else "")
            # How an actor rested is no time of its own, but a part of that wait.
            for name, rest in _rests(rests, each, first, last):
                of_member[name] = of_member.get(name, 0.0) + rest / (last - first)
                overlap -= rest
            of_member[what] = of_member.get(what, 0.0) + overlap / (last - first)
    rounded = {
        member: {what: round(share, 4) for what, share in found.items()}
        for member, found in shares.items()
    }
    return Column(begin, end, (since, max(since, until)), rounded)


def _rests(
    rests: Sequence[Span], wait: Span, first: float, last: float
) -> Iterator[tuple[str, float]]:
    """How an actor rested within a wait, and for how long between ``first`` and ``last``."""
    for each in rests if wait.kind == "wait" else ():
        if each.member == wait.member:
            rest = min(each.end, wait.end, last) - max(each.begin, wait.begin, first)
            if rest > 0:
                yield each.name, rest


def rows_in_order(rows: Iterable[str]) -> list[str]:
    """The row of the triggers, then members as people list them."""
    return sorted(in_order(set(rows)), key=lambda row: row != "triggers")
