"""The lines of a journal as events of the Trace Event Format, which Perfetto and Chromium show.

Pure. Each member has a row. What it did are slices. Arrows go from a round to the firing that its
rows cause, from there to the update, and from the version that this makes to the rounds sampled
under it. A wait is for the last thing that was missing: ``for`` says what, ``who`` whose.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from artos.specs.members import ACTORS, actor_of
from deploy.tracing.lines import goes_on_anew
from triggers.targets import parsed

Event = dict[str, Any]
_RUN = 1
_FIRINGS_ROW, _FIRST_MEMBER = 1, 2
_ACTORS_FROM = 1_000
PARTS = ("gather", "learn", "publish")
"""Parts of an update, in the order in which they are done."""
DEVICE_WAIT = "wait_for_device"
"""What an update waited for before it began, as its ``times`` name it."""
_TOLD = ("t", "by", "times", "seconds", "rested")
"""What of a line is drawn, and so no fact of its slice."""
_KEPT = 10_000
"""Firings, versions and rounds of an actor that arrows may still lead to or from."""
_Cause = tuple[str, Any]
"""An actor and the row up to which it has sampled; or ``_VERSION``, and its number and learner."""
_VERSION, _ANYONE = "version", ""
_WITHIN = 0.001
"""Microseconds before its end that are within a slice."""
_INSTANT = 1.0
"""Microseconds; a firing takes no time, but arrows need something that they can lead to."""


@dataclass(frozen=True, slots=True)
class _At:
    """A place that arrows lead to or from; ``ts`` in microseconds."""

    row: int
    ts: float


@dataclass(frozen=True, slots=True)
class _Fired:
    """A firing: of which trigger, when and under which version; ``last`` made what it lacked last.

    That is "" if an earlier version of ARTOS wrote the journal and no rows were claimed.
    """

    trigger: str
    at: _At
    version: int
    last: str


class Latest(OrderedDict[Any, Any]):
    """Forgets what is oldest."""

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        while len(self) > _KEPT:
            self.popitem(last=False)


@dataclass
class Tracer:
    """Turns lines into events, one by one; ``steps`` is how many rows of an actor a round has.

    They may begin in the midst of a journal: then ``begun`` is true, and ``offset`` is what is to
    be added to their times (microseconds), as the run was resumed before.
    """

    steps: int = 0
    begun: bool = False
    offset: float = 0.0
    _rows: dict[str, int] = field(default_factory=dict)
    _ends: dict[int, float] = field(default_factory=dict)  # of the last slice of a row
    _firings: Latest = field(default_factory=Latest)
    _causes: Latest = field(default_factory=Latest)  # where rows or a version were made
    _early: Latest = field(default_factory=Latest)  # firings whose cause answers later
    _rows_of: dict[str, int] = field(default_factory=dict)  # rows that an actor has sampled
    _learners: set[str] = field(default_factory=set)  # that have made versions
    _newest: dict[str, int] = field(default_factory=dict)  # the versions that they have made
    _arrows: int = 0
    _now: float = 0.0

    def of(self, lines: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
        """The events of these lines, in their order."""
        yield _meta("process_name", 0, "run")
        yield _meta("thread_name", _FIRINGS_ROW, "triggers")
        yield _meta("thread_sort_index", _FIRINGS_ROW, index=0)
        for line in lines:
            if goes_on_anew(line, (self._now - self.offset) / 1e6):
                yield from self._resume()
            if (t := line.get("t")) is not None:
                self._now = max(self._now, self.offset + 1e6 * t)
            yield from self._line(line)

    def _resume(self) -> Iterator[Event]:
        self.offset, self.begun = self._now, True
        for each in (self._firings, self._causes, self._early, self._rows_of, self._newest):
            each.clear()
        yield self._instant("resumed", {}, scope="g")

    def _line(self, line: Mapping[str, Any]) -> Iterator[Event]:
        now = self._now
        if "firing" in line:
            yield from self._fired(line)
        elif "done" in line:
            yield from self._done(line)
        elif "ready" in line:
            row = yield from self._row(line["ready"])
            begun = now - 1e6 * line.get("seconds", 0.0)
            facts = {name: line[name] for name in ("device", "from", "to") if name in line}
            yield self._slice(row, f"start: {line['start']}", "start", begun, now, facts)
        elif "died" in line:
            row = yield from self._row(line["died"])
            yield self._instant("died", {"why": line.get("why", "")}, row=row)
        elif "set" in line:
            yield self._instant(
                f"set {_words(line['set']) or 'nothing'}", dict(line["set"]), scope="g"
            )
        elif "lost" in line:
            yield self._instant("rows lost", {k: v for k, v in line.items() if k != "t"})

    def _row(self, member: str) -> Generator[Event, None, int]:
        """The number of a member's row; the row is named when it is first there."""
        if member not in self._rows:
            actor = actor_of(member)
            others = sum(row < _ACTORS_FROM for row in self._rows.values())
            row = _ACTORS_FROM + actor if actor is not None else _FIRST_MEMBER + others
            self._rows[member] = row
            yield _meta("thread_name", row, member)
            yield _meta("thread_sort_index", row, index=row)
        return self._rows[member]

    def _fired(self, line: Mapping[str, Any]) -> Iterator[Event]:
        facts = {k: line[k] for k in ("firing", "version", "claims", "dropped") if k in line}
        at = _At(_FIRINGS_ROW, self._now)
        yield _event("X", at, line["trigger"], cat="firing", dur=_INSTANT, args=facts)
        claimed: list[_Cause] = [
            (f"actor {actor}", end)
            for actor, _, end, *environment in line.get("claims", ())
            if not environment  # a whole episode is of several rounds, or of a part of one
        ]
        self._firings[line["firing"]] = _Fired(
            line["trigger"], at, line["version"], line.get("after") or self._last_of(claimed)
        )
        for cause in claimed or self._version_of(line):
            if made := self._causes.get(cause):
                row, begun, ended = made
                yield from self._arrow(cause, row, begun, ended, at)
            else:  # it is seen in shared memory before its member has answered
                self._early[cause] = [*self._early.get(cause, ()), at]

    def _version_of(self, line: Mapping[str, Any]) -> Iterator[_Cause]:
        """The version that a firing without claims came of; none if it came of something else.

        Several learners may have made versions of one number: the line says after whose it came.
        """
        after = line.get("after", "")
        if line["version"] < max(0, self._newest.get(after, 0)):
            return  # it counts something else: reports, another object, or nothing at all
        if after and actor_of(after) is None:
            yield _VERSION, (line["version"], after)
        elif len(self._learners) < 2 and (not after or line["trigger"].startswith(f"{ACTORS}.")):
            yield _VERSION, (line["version"], _ANYONE)

    def _last_of(self, claimed: Sequence[_Cause]) -> str:
        """Whose rows of these came last; who has not answered yet has only just written them."""
        made = self._causes
        late = [cause for cause in claimed if cause not in made]
        return (late or sorted(claimed, key=lambda cause: made[cause][2]) or [("", 0)])[-1][0]

    def _done(self, line: Mapping[str, Any]) -> Iterator[Event]:
        member = line["by"]
        row = yield from self._row(member)
        fired: _Fired | None = self._firings.get(line["done"])
        role, _, method = (fired.trigger if fired else "").partition(".")
        times = line.get("times", {})
        begun = max(self._ends.get(row, 0.0), self._now - 1e6 * line.get("seconds", 0.0))
        waits = list(self._waited(row, line, fired, begun))
        yield from waits
        yield from _rested(row, line, begun, waits)
        facts = {k: v for k, v in line.items() if k not in _TOLD}
        if DEVICE_WAIT in times:  # a lease lasts as long as what it is for
            facts["leased"] = line.get("seconds", 0.0)
        if not method:  # it was fired before the first line that is read
            samples = actor_of(member) is not None
            role, method = (ACTORS, "sample") if samples else (member, "done")
            method = "update" if "lags" in line else method
        yield self._slice(row, method, role, begun, self._now, facts)
        at = begun
        for part in PARTS:  # within the slice, so that a viewer shows them below it
            if seconds := times.get(part):
                end = min(at + 1e6 * seconds, self._now)
                yield _event("X", _At(row, at), part, cat="part", dur=round(end - at, 3))
                at = end
        if fired is not None:
            yield from self._joined("fires", fired.at, _At(row, max(begun, fired.at.ts)))
        if "version" in line and (parsed(fired.trigger).learns if fired else "lags" in line):
            yield from self._updated(line, member, row, begun)
        if actor_of(member) is not None and (rows := self._rows_until(member, line)):
            yield from self._caused((member, rows), row, begun)
        if "lag_mean" in line:
            yield self._counter("policy lag", mean=line["lag_mean"], max=line.get("lag_max", 0))

    def _waited(
        self, row: int, line: Mapping[str, Any], fired: _Fired | None, until: float
    ) -> Iterator[Event]:
        """What a member did nothing for before it began: first its firing, then its process."""
        last = self._ends.get(row)
        if fired and last is not None and last < (end := min(fired.at.ts, until)):
            what, who = self._missed(fired)
            facts = {"for": what, "who": who} if who and who != line["by"] else {"for": "firing"}
            yield self._slice(row, "wait", "wait", last, end, facts)
        slot, restored = 1e6 * line.get("slot", 0.0), line.get("restored", 0.0)
        process = 1e6 * line.get("waited", 0.0)
        device = 1e6 * line.get("times", {}).get(DEVICE_WAIT, 0.0)
        if not (slot or process or fired):
            process = 1e6 * line.get("times", {}).get("wait", 0.0)
        for what, since, end in (
            ("slot", until - process - slot, until - process), ("process", until - process, until),
            ("device", until - device, until),
        ):  # fmt: skip
            if (since := max(self._ends.get(row, 0.0), since)) < end:
                more = {"restored": restored} if restored and what == "process" else {}
                yield self._slice(row, "wait", "wait", since, end, {"for": what} | more)

    def _missed(self, fired: _Fired) -> tuple[str, str]:
        """What a firing came no earlier for, and who made it; "": that is not known."""
        if fired.last:
            return "rows" if actor_of(fired.last) is not None else _VERSION, fired.last
        made = self._causes.get((_VERSION, (fired.version, _ANYONE)))
        names = {row: name for name, row in self._rows.items()}
        return _VERSION, names[made[0]] if made else ""

    def _rows_until(self, member: str, line: Mapping[str, Any]) -> int:
        """How many rows an actor has sampled by the end of a round; 0: that is not known."""
        if (stop := line.get("ended") or line.get("stop")) is not None:
            return int(stop)
        if not self.steps or self.begun:
            return 0
        self._rows_of[member] = self._rows_of.get(member, 0) + self.steps
        return self._rows_of[member]

    def _slice(
        self, row: int, name: str, kind: str, begun: float, end: float,
        facts: Mapping[str, Any] | None = None,
    ) -> Event:  # fmt: skip
        begun = max(begun, self._ends.get(row, 0.0))  # slices of a row are one after another
        self._ends[row] = end = max(begun, end)
        dur = round(end - begun, 3)
        return _event("X", _At(row, begun), name, cat=kind, dur=dur, args=dict(facts or {}))

    def _instant(
        self, name: str, facts: Mapping[str, Any], row: int = _FIRINGS_ROW, scope: str = "t"
    ) -> Event:
        return _event("i", _At(row, self._now), name, cat="event", s=scope, args=dict(facts))

    def _counter(self, name: str, **values: float) -> Event:
        return _event("C", _At(0, self._now), name, args=values)

    def _updated(
        self, line: Mapping[str, Any], learner: str, row: int, begun: float
    ) -> Iterator[Event]:
        """A learner is done: it has made a version, unless it only prepared one.

        Where there are several learners, it is nobody else's.
        """
        version, first = line["version"], line["version"] if self.begun else 0
        before = self._newest.get(learner, -1 if "lags" in line else first)
        self._newest[learner] = version
        if version <= before:
            return
        yield from self._caused((_VERSION, (version, learner)), row, begun)
        self._learners.add(learner)
        if self._learners == {learner}:
            yield from self._caused((_VERSION, (version, _ANYONE)), row, begun)

    def _caused(self, cause: _Cause, row: int, begun: float) -> Iterator[Event]:
        """A slice that began then, and ends now, has made this."""
        self._causes[cause] = row, begun, self._now
        for firing in self._early.pop(cause, ()):
            yield from self._arrow(cause, row, begun, self._now, firing)

    def _arrow(
        self, cause: _Cause, row: int, begun: float, ended: float, firing: _At
    ) -> Iterator[Event]:
        """From within a slice to a firing, which may come before the slice's end."""
        tail = _At(row, max(begun, min(ended, firing.ts) - _WITHIN))
        if tail.ts <= firing.ts:
            yield from self._joined("version" if cause[0] == _VERSION else "rows", tail, firing)

    def _joined(self, name: str, tail: _At, head: _At) -> Iterator[Event]:
        self._arrows += 1
        yield _event("s", tail, name, cat="flow", id=self._arrows)
        yield _event("f", head, name, cat="flow", id=self._arrows, bp="e")


def _rested(
    row: int, line: Mapping[str, Any], until: float, waits: Iterable[Event]
) -> Iterator[Event]:
    """How an actor rested until it went on: within its waits, so that a viewer shows it below."""
    for wait in waits:
        since, end = wait["ts"], wait["ts"] + wait["dur"]
        for state, before, seconds in line.get("rested", ()):
            begun = max(since, until - 1e6 * before)
            dur = min(end, until - 1e6 * (before - seconds)) - begun
            if dur > 0:
                yield _event("X", _At(row, begun), state, cat="rest", dur=round(dur, 3))


def _event(kind: str, at: _At, name: str, **more: Any) -> Event:
    return {"ph": kind, "pid": _RUN, "tid": at.row, "ts": round(at.ts, 3), "name": name, **more}


def _meta(kind: str, row: int, name: str = "", index: int | None = None) -> Event:
    args = {"name": name} if index is None else {"sort_index": index}
    return {"ph": "M", "pid": _RUN, "tid": row, "ts": 0, "name": kind, "args": args}


def _words(settings: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value:g}" for name, value in settings.items())


def within(events: Iterable[Event], since: float, until: float) -> Iterator[Event]:
    """Those that touch the time from ``since`` to ``until``, in seconds, and what rows are called.

    Arrows are kept that have both ends there.
    """
    first, last = 1e6 * since, 1e6 * until
    tails: dict[int, Event] = {}
    for event in events:
        ts, end = event["ts"], event["ts"] + event.get("dur", 0.0)
        if event["ph"] == "M":
            yield event
        elif end < first or ts > last:
            continue
        elif event["ph"] == "s":
            tails = {event["id"]: event}  # its end follows at once
        elif event["ph"] == "f":
            if tail := tails.get(event["id"]):
                yield tail
                yield event
        else:
            yield event
