"""The lines of a journal as spans of OpenTelemetry: what was caused by what, in traces.

Pure. A trace is all that began under one version of the policy. Its root is the version, for as
long as it was the newest; below it are the triggers that fired meanwhile, and below each of them
the invocations that it caused. A firing is linked to the rounds whose rows it takes, and a version
to the update that made it: both may be in an earlier trace. Numbers of spans are made from what
they are of, so a run that is sent twice is there once.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal

from artos.specs.members import ACTORS, actor_of
from deploy.tracing.events import DEVICE_WAIT, PARTS, Latest
from deploy.tracing.lines import goes_on_anew

Kind = Literal["internal", "producer", "consumer"]
Facts = Mapping[str, bool | float | str]
VERSIONS, TRIGGERS = "versions", "triggers"
"""Whose spans are no member's."""
_HELD = 1_000
"""Firings that wait for the answer of a round whose rows they take."""
_KEPT = 1_000
"""Rounds of an actor whose rows may still be taken."""
_RANK = re.compile(r" \d+\Z")
_FACTS = ("cpu", "slot", "waited", "restored", "lag_mean", "lag_max", "stop", "nothing")
_STARTED = ("start", "device", "from", "to")
"""What is told of an invocation, and of a start, as the journal has it."""


@dataclass(frozen=True, slots=True)
class Id:
    """A span's number, of 64 bits, and that of its trace, of 128."""

    trace: int
    span: int


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took time, in seconds since 1970; ``after`` are those since the run began.

    ``role`` is whose it is; ``failed`` says why it has, "" if it has not.
    """

    id: Id
    parent: Id | None
    role: str
    member: str
    name: str
    begin: float
    end: float
    after: float
    kind: Kind = "internal"
    facts: Facts = field(default_factory=dict)
    links: tuple[Id, ...] = ()
    failed: str = ""


class Spans:
    """Turns the lines of a ``run`` into spans, one by one.

    ``began`` are the seconds since 1970 at which it, and each of its continuations, was asked for:
    what journals of earlier versions of ARTOS have no line for.
    """

    def __init__(self, run: str, began: Sequence[float] = ()) -> None:
        self._run, self._parts, self._part = run, [*began] or [0.0], -1
        self._offset = self._now = self._last = 0.0
        self._begin()

    def _begin(self) -> None:
        """Numbers of firings, and times, begin anew in a run that is resumed."""
        self._part += 1
        self._epoch = self._parts[min(self._part, len(self._parts) - 1)]
        self._offset, self._last = self._now, 0.0
        self._version, self._since = -1, 0.0
        self._firings, self._makers = Latest(), Latest()
        self._rounds: dict[int, deque[tuple[int, int, Id]]] = {}
        self._held: dict[int, tuple[dict[str, Any], float]] = {}

    def of(self, lines: Iterable[dict[str, Any]]) -> Iterator[Span]:
        """The spans that end with these lines, in about their order."""
        for line in lines:
            t = line.get("t", self._last)
            if goes_on_anew(line, self._last):
                yield from self.rest()
                self._begin()
            self._epoch = line.get("began", self._epoch)
            self._last, self._now = max(t, self._last), max(self._now, self._offset + t)
            if "firing" in line:
                target, version = line.get("trigger", ""), line.get("version", -1)
                if version > self._version:
                    yield from self._published(version)
                self._firings[line["firing"]] = target, version
                self._held[line["firing"]] = line, t
                yield from self._fired()
            elif "done" in line:
                yield from self._done(line)
                yield from self._fired()
            elif member := line.get("ready", line.get("died")):
                name, now = "start" if "ready" in line else "died", self._last
                yield self._span(
                    self._id(self._version, name, member, now), self._id(self._version),
                    (_role(member), member), name, now - line.get("seconds", 0.0), now,
                    facts={key: line[key] for key in _STARTED if key in line},
                    failed=str(line.get("why", "ended")) if name == "died" else "",
                )  # fmt: skip

    def rest(self) -> Iterator[Span]:
        """What has no end yet, as there are no more lines."""
        yield from self._fired(most=-1)
        yield from self._published(self._version)

    def _id(self, version: int, *what: object) -> Id:
        trace, span = ("/".join(map(str, (self._run, self._part, *of))).encode()
                       for of in ((version,), (version, *what)))  # fmt: skip
        return Id(
            int.from_bytes(blake2b(trace, digest_size=16).digest(), "big"),
            int.from_bytes(blake2b(span, digest_size=8).digest(), "big"),
        )

    def _span(
        self, of: Id, parent: Id | None, whose: tuple[str, str], name: str, begin: float,
        end: float, **more: Any,
    ) -> Span:  # fmt: skip
        begin = max(0.0, min(begin, end))
        role, member = whose
        return Span(
            of, parent, role, member, name, self._epoch + begin, self._epoch + end,
            self._offset + end, **more,
        )  # fmt: skip

    def _published(self, version: int) -> Iterator[Span]:
        """The version so far is outdated."""
        old, self._version = self._version, version
        makers = self._makers.get(old, {})
        yield self._span(
            self._id(old), None, (VERSIONS, VERSIONS), "version" if old >= 0 else "launch",
            self._since, self._last, facts={"version": old},
            links=next(iter(makers.values())) if len(makers) == 1 else (),  # else: whose is it?
        )  # fmt: skip
        self._since = self._last

    def _fired(self, most: int = _HELD) -> Iterator[Span]:
        """Firings whose causes are known, and the first of the others if these are too many."""
        for number, (line, t) in [*self._held.items()]:
            claims = line.get("claims", ())
            newest = (self._rounds.get(actor, ((0, 0),))[-1][1] for actor, *_ in claims)
            told = all(stop >= claim[2] for stop, claim in zip(newest, claims, strict=True))
            if told or len(self._held) > most:
                del self._held[number]
                target, version = self._firings.get(number, ("", -1))
                rows = sum(end - begin for _, begin, end, *_ in claims)
                facts = {"firing": number, "version": version, "rows": rows}
                facts |= {"after": line["after"]} if "after" in line else {}
                links = dict.fromkeys(of for claim in claims for of in self._made(*claim))
                yield self._span(
                    self._id(version, number), self._id(version), (TRIGGERS, TRIGGERS),
                    f"trigger {target}", t, t, kind="producer", facts=facts, links=(*links,),
                )  # fmt: skip

    def _made(self, actor: int, begin: int, end: int, *_: int) -> Iterator[Id]:
        """The rounds that rows of an actor were sampled in, the last one first."""
        for first, stop, of in reversed(self._rounds.get(actor, ())):
            if stop <= begin:
                break
            if first < end:
                yield of

    def _done(self, line: Mapping[str, Any]) -> Iterator[Span]:
        """An invocation, and the parts of an update."""
        number, member, end = line["done"], line.get("by", ""), self._last
        target, version = self._firings.get(number, ("", self._version))
        made, role = line.get("version", -1), _role(member)
        of = self._id(version, number, member)
        if (actor := actor_of(member)) is not None and (
            stop := line.get("ended") or line.get("stop")
        ):
            rounds = self._rounds.setdefault(actor, deque(maxlen=_KEPT))
            rounds.append((rounds[-1][1] if rounds else 0, stop, of))
        if "lags" in line:
            makers = self._makers.setdefault(made, {})
            makers[role] = (*makers.get(role, ()), of)
        facts = {"firing": number, "version": made}
        facts |= {name: line[name] for name in _FACTS if name in line}
        begin = end - line.get("seconds", 0.0)
        parent = self._id(version, number) if target else self._id(version)
        yield self._span(
            of, parent, (role, member), target or role, begin, end, kind="consumer", facts=facts
        )
        if waited := line.get("times", {}).get(DEVICE_WAIT):  # which is not in its seconds
            own = self._id(version, number, member, DEVICE_WAIT)
            yield self._span(own, of, (role, member), DEVICE_WAIT, begin - waited, begin)
        for part in PARTS:
            if seconds := line.get("times", {}).get(part):
                begin, last = min(begin + seconds, end), begin
                own = self._id(version, number, member, part)
                yield self._span(own, of, (role, member), part, last, begin)


def _role(member: str) -> str:
    return ACTORS if actor_of(member) is not None else _RANK.sub("", member)
