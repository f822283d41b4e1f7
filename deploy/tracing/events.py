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
from deploy.tracing.lines import FOR_REPLAY, goes_on_anew, is_replica, unanswered
from triggers.targets import parsed

Event = dict[str, Any]
_RUN = 1
_FIRINGS_ROW, _FIRST_MEMBER = 1, 2
_ACTORS_FROM = 1_000
PARTS = ("gather", "learn", "publish")
"""Parts of an update, in the order in which they are done."""
DEVICE_WAIT = "wait_for_device"
"""What an update waited for before it began, as its ``times`` name it."""
HAND_OVER, AWAY, RESTART = "hand-over", "scaled away", "restart"
"""What a member waits for: from a firing until it begins, and nothing else keeps it; as an actor
that takes no part; from its death until it is started again."""
_TOLD = frozenset(("t", "line", "by", "times", "seconds", "rested", *FOR_REPLAY))
"""What of a line is drawn, or says nothing to a person, and so is no fact of its slice."""
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
    be added to their times (microseconds), as the run was resumed before. ``replicas`` are
    members that answer nothing themselves, as the first of them does so for all: ``learner 1``.
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
    replicas: set[str] = field(default_factory=set)
    _left: dict[str, float] = field(default_factory=dict)  # since when actors take no part
    _died: dict[str, float] = field(default_factory=dict)  # when those died that are not back

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
        yield from self._those_away()

    def _resume(self) -> Iterator[Event]:
        yield from self._those_away()
        self.offset, self.begun = self._now, True
        for each in (
            self._firings, self._causes, self._early, self._rows_of, self._newest,
            self._left, self._died,
        ):  # fmt: skip
            each.clear()
        yield self._instant("resumed", {}, scope="g")

    def _line(self, line: Mapping[str, Any]) -> Iterator[Event]:
        if "firing" in line:
            yield from self._fired(line)
        elif "done" in line:
            yield from self._done(line)
        elif "ready" in line:
            yield from self._started(line)
        elif "died" in line:
            yield from self._dies(line)
        elif isinstance(line.get("actors"), int):
            yield from self._scaled(line)
        elif "set" in line:
            yield self._instant(
                f"set {_words(line['set']) or 'nothing'}", dict(line["set"]), scope="g"
            )
        elif "lost" in line:
            yield self._instant("rows lost", {k: v for k, v in line.items() if k != "t"})

    def _started(self, line: Mapping[str, Any]) -> Iterator[Event]:
        member = line["ready"]
        if is_replica(member):
            self.replicas.add(member)
        row = yield from self._row(member)
        begun = self._now - 1e6 * line.get("seconds", 0.0)
        died = self._died.pop(member, None)
        yield from self._away(member, row, begun)
        if died is not None and (since := max(died, self._ends.get(row, 0.0))) < begun:
            yield self._slice(row, "wait", "wait", since, begun, {"for": RESTART})
        facts = {name: line[name] for name in ("device", "from", "to") if name in line}
        yield self._slice(row, f"start: {line['start']}", "start", begun, self._now, facts)

    def _dies(self, line: Mapping[str, Any]) -> Iterator[Event]:
        """A member is gone, and with it what it was at since its last answer; replicas all are."""
        member = line["died"]
        row = yield from self._row(member)
        yield self._instant("died", {"why": line.get("why", "")}, row=row)
        role = member.rpartition(" ")[0] if is_replica(member) else member
        for name, row in self._rows.items():
            its_role = name.rpartition(" ")[0] if name in self.replicas else name
            if its_role != role or name in self._died or name in self._left:
                continue
            self._died[name] = self._now
            if self._ends.get(row, self._now) < self._now:
                yield self._slice(row, "lost", "lost", 0.0, self._now)

    def _scaled(self, line: Mapping[str, Any]) -> Iterator[Event]:
        """Actors leave, or come: those that do are known by ``before``, if the line has it."""
        count = line["actors"]
        facts = {name: line[name] for name in ("before", "version") if name in line}
        name = f"scaled to {count} actor{'s' * (count != 1)}"
        yield self._instant(name, facts, scope="g")
        for member, row in self._rows.items():
            if (rank := actor_of(member)) is None:
                continue
            if rank >= count:
                self._left.setdefault(member, self._now)
            elif member in self._left or rank >= line.get("before", count):
                # It may have been prepared before it was to take part.
                self._left.setdefault(member, self._ends.get(row, self._now))
                yield from self._away(member, row, self._now)
                del self._left[member]

    def _away(self, member: str, row: int, until: float) -> Iterator[Event]:
        """The time so far in which an actor took no part, and before it what led to no firing."""
        left, last = self._left.get(member, until), self._ends.get(row)
        if last is not None and last < left < until:
            yield self._slice(row, "wait", "wait", last, left, {"for": "firing"})
        if (since := max(left, last or 0.0)) < until:
            yield self._slice(row, "wait", "wait", since, until, {"for": AWAY})

    def _those_away(self) -> Iterator[Event]:
        for member in self._left:
            yield from self._away(member, self._rows[member], self._now)

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
        if unanswered(line):  # it was at work all the time
            begun = min(self._now, max(self._ends.get(row, begun), fired.at.ts if fired else 0.0))
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
        done = self._slice(row, method, role, begun, self._now, facts)
        yield done
        yield from self._replicated(member, [*waits, done])
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
        """What a member did nothing for before it began: its firing, then all that kept it."""
        last = self._ends.get(row)
        fired_at = fired.at.ts if fired else 0.0  # before all that is read
        if fired and last is not None and last < (end := min(fired_at, until)):
            what, who = self._missed(fired)
            facts = {"for": what, "who": who} if who and who != line["by"] else {"for": "firing"}
            yield self._slice(row, "wait", "wait", last, end, facts)
        slot, restored = 1e6 * line.get("slot", 0.0), line.get("restored", 0.0)
        process, times = 1e6 * line.get("waited", 0.0), line.get("times", {})
        device = 1e6 * times.get(DEVICE_WAIT, 0.0)
        kept = until - max(slot + process, device)
        is_known = fired or last is not None
        free = fired_at if is_known else until - 1e6 * times.get("wait", 0.0)
        for what, since, end in (
            (HAND_OVER if is_known else "firing", free, kept),
            ("slot", until - process - slot, until - process), ("process", until - process, until),
            ("device", until - device, until),
        ):  # fmt: skip
            if (since := max(self._ends.get(row, 0.0), since)) < end:
                more = {"restored": restored} if restored and what == "process" else {}
                yield self._slice(row, "wait", "wait", since, end, {"for": what} | more)

    def _replicated(self, member: str, slices: Iterable[Event]) -> Iterator[Event]:
        """The replicas of a learner do, and wait for, what the first one does."""
        for name in sorted(self.replicas):
            if name.rpartition(" ")[0] != member:
                continue
            row = yield from self._row(name)
            for each in slices:
                begun, end = each["ts"], each["ts"] + each["dur"]
                if end > self._ends.get(row, 0.0):
                    facts = {**each["args"], "with": member}
                    yield self._slice(row, each["name"], each["cat"], begun, end, facts)

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
