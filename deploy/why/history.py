"""What the members of a run did when, from the lines of its journal. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import Any, NamedTuple, TypeVar

from artos.specs.members import ACTORS, Member, actor_of
from deploy.tracing.events import HAND_OVER, RESTART
from deploy.tracing.lines import goes_on_anew, unanswered
from head.run.concerns.failures import FailureLimits
from triggers.targets import parsed

NETWORK = "network"
"""What is left between a firing and the work that it caused, on a cluster: ``HAND_OVER`` here."""
DISK, SLOT, PROCESS, DEVICE = "disk", "slot", "process", "device"
STALL = "stall"
"""Something took far longer than it usually does, once."""
SAMPLE = "sample"
_DEVICE_WAIT = "wait_for_device"
_WAIT = "wait"
_SAID = {"times", "nothing"}
"""Where a learner's time went, or why it did nothing: one is in each answer of its own."""
_AT_WORK = "running "
"""Begins what the run's status says of a member that is at work."""
_OF_MEMBERS = frozenset({"firing", "done", "ready", "died"})
"""Lines that have one of these are of a trigger or a member."""
_QUIET = 2.0
"""Seconds for which lines may be on their way to the journal."""
_USUAL = 9
"""Invocations before one that say how long it usually takes."""
K = TypeVar("K")


def is_actor(member: str) -> bool:
    """Whether this is the name of an actor."""
    return actor_of(member) is not None


@dataclass(slots=True)
class Invocation:
    """What a member did for a firing. Times are seconds since the run, or its last part, began."""

    member: str
    firing: int
    trigger: str
    fired: float
    cause: str
    """The member that did what was missing last; "" for a clock, or if it is not known."""
    begin: float
    end: float
    work: dict[str, float]
    """Seconds by kind; with ``held`` they are ``end - begin`` in all."""
    kept: dict[str, float]
    """What kept it from beginning once it was fired and the member was free, seconds by kind."""
    before: Invocation | None
    """The one before of the same member; if all are in one process, of whomever."""
    idle_restart: float = 0.0
    """Seconds between that and the firing in which the member was being restarted."""
    held: dict[str, float] = field(default_factory=dict)
    """Seconds within it in which it waited for a server to be restarted, by server."""
    cpu: float = 0.0
    """CPU-seconds that a learner used for it."""
    idle_away: float = 0.0
    """Seconds between the one before and the firing in which the actor took no part."""
    stalled: float = 0.0
    """Seconds within it that are not of its ``work``, as it usually takes that much less."""

    @property
    def free(self) -> float:
        """When its member, or the process of all, had nothing else to do."""
        return self.before.end if self.before else 0.0

    @property
    def called(self) -> float:
        """When it was fired, and its member had nothing else to do."""
        return max(self.fired, self.free)


class _Firing(NamedTuple):
    """Of which trigger, when, after whom; and the actors that it was for, None: all."""

    trigger: str
    at: float
    cause: str = ""
    actors: Collection[int] | None = None


@dataclass
class History:
    """The invocations of each member, oldest first, of the run's last part.

    ``split`` says by kind what actors do while they sample, as shares; ``far`` whether actors are
    on other machines than the learner; ``servers`` are the names of those that actors ask.
    """

    split: Mapping[str, float] = field(default_factory=dict)
    far: bool = False
    servers: Collection[str] = ()
    members: dict[str, list[Invocation]] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)
    restarts: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """From when to when each member was being restarted, oldest first."""
    deaths: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """How often the processes of each member died, by name: a learner may be several replicas."""
    actors: int = 0
    """How many actors took part at the end; 0 if their number never changed."""
    quota: str = ""
    """Which quota last kept slots from the actors."""
    queued: float = 0.0
    """Seconds for which the run's loop waited for a CPU."""
    began: float = 0.0
    """Time of the first line that was read: of a long journal, only its end is."""
    ended: float = 0.0
    """Time of the last line, or up to which the run went on after it."""
    under_way: dict[str, Invocation] = field(default_factory=dict)
    """What each member was still at when the run went on without a line; it ends with ``ended``."""
    heard: float = 0.0
    """Time of the last line of a member, or of a trigger."""
    _firings: dict[int, _Firing] = field(default_factory=dict)
    _blocked: list[tuple[float, float]] = field(default_factory=list)
    _died: dict[str, tuple[float, float]] = field(default_factory=dict)
    """When those died that are not ready again, and how long after that they were asked for at
    most, in seconds, as far as somebody needed them."""
    _unanswered: dict[tuple[str, str], list[tuple[float, float]]] = field(default_factory=dict)
    """From when to when a server of one node was being restarted, by server and actor there."""
    _asked_by: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    """Since when actors are without their node's server, by server that is not ready again."""
    left: dict[str, float] = field(default_factory=dict)
    """Since when those actors that take no part, and did before, are away."""
    _away: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """From when to when actors took no part, oldest first."""
    inline: bool = False
    """Whether all members are in one process: who is to work waits until others have."""
    _newest: Invocation | None = None

    def read(self, lines: Iterable[Mapping[str, Any]]) -> History:
        """Take in these lines, in their order."""
        for line in lines:
            t = line.get("t", self.ended)
            if not self.ended:
                self.began = t
            if goes_on_anew(line, self.ended):  # what was before is another part
                for each in (
                    self.members, self.ready, self.restarts, self.deaths,
                    self._firings, self._blocked, self._died, self._unanswered, self._asked_by,
                    self.left, self._away,
                ):  # fmt: skip
                    each.clear()
                self.quota, self.queued, self.ended = "", 0.0, 0.0
                self.began, self.actors, self.heard, self._newest = 0.0, 0, 0.0, None
            self.ended = max(self.ended, t)
            self.heard = self.heard if _OF_MEMBERS.isdisjoint(line) else self.ended
            if "firing" in line:
                self._firings[line["firing"]] = _Firing(
                    line["trigger"], t, line.get("after", ""), line.get("actors")
                )
            elif "done" in line:
                self._done(line, t)
            elif "ready" in line:
                self._ready(line["ready"], t, t - line.get("seconds", 0.0))
            elif "died" in line:
                self._dies(line, t)
            elif "blocked" in line:
                self._blocked.append((t - line["blocked"], t))
            elif "queued" in line:
                self.queued += line["queued"]
            elif "quota" in line:
                self.quota = line["quota"] or self.quota
            elif isinstance(line.get("actors"), int):
                self._scaled(line["actors"], t, line.get("before"))
        return self

    def goes_on(self, until: float, waits: Mapping[str, str]) -> None:
        """The run went on until then: what is not answered is not over yet.

        That is known only if nobody was heard for 2 s. ``waits`` has what its status said of each
        member, if anything is known of that.
        """
        if until - self.heard <= _QUIET:
            return
        self.ended = max(self.ended, until)
        for member, (died, _) in self._died.items():
            if self._takes_part(member):
                self.restarts.setdefault(member, []).append((died, self.ended))
                for actor, since in self._asked_by.get(member, {}).items():
                    self._unanswered.setdefault((member, actor), []).append((since, self.ended))
        for member in {**self.ready, **self.members}:
            if self._takes_part(member) and (number := self._not_answered(member)):
                said = waits.get(member, "")
                keeps = "" if said.startswith(_AT_WORK) else said
                self.under_way[member] = self._still_at(member, number, keeps)
        if self.inline and self.under_way:  # the others' turn comes after the first one's
            first = min(self.under_way.values(), key=lambda each: each.fired)
            self.under_way = {first.member: first}

    def waited_for(self, learner: str) -> Invocation | None:
        """What is not over yet although all else is: that of this learner, or the oldest one."""

        def place(each: Invocation) -> tuple[bool, bool, bool, float]:
            lacks = each.begin >= each.end and RESTART not in each.kept
            return lacks, each.member != learner, not is_actor(each.member), each.called

        return min(self.under_way.values(), key=place, default=None)

    def _not_answered(self, member: str) -> int:
        """The newest firing for it that it has not answered; 0 if there is none.

        There may be earlier ones, but those of a time when it took no part were not for it.
        """
        rank, past = actor_of(member), self.members.get(member)
        answered = past[-1].firing if past else 0
        for number, fired in reversed(self._firings.items()):
            if number <= answered:
                return 0
            asked = fired.actors is None or rank in fired.actors
            target = parsed(fired.trigger)
            if asked and (target.role == member if rank is None else target.samples):
                return number
        return 0

    def _still_at(self, member: str, number: int, keeps: str) -> Invocation:
        past, fired, before = self.members.get(member), self._firings[number], self._before(member)
        called = max(fired.at, before.end if before else self.ready.get(member, self.began))
        restarts = self.restarts.get(member, ())
        begin = min(self.ended, max(called, restarts[-1][1] if restarts else 0.0))
        kept = {RESTART: begin - called} if begin > called else {}
        if keeps and not kept:
            kept, begin = {keeps: self.ended - begin}, self.ended
        parts: Mapping[str, float] = past[-1].work if past else {}
        held: dict[str, float] = {}
        if is_actor(member):
            held = self._held(member, begin, self.ended, fired.trigger)
            parts = self.split or {SAMPLE: 1.0}
        work = scaled(parts or {"work": 1.0}, self.ended - begin - sum(held.values()))
        return Invocation(
            member, number, fired.trigger, fired.at, fired.cause, begin, self.ended, work, kept,
            before, held=held,
        )  # fmt: skip

    def _before(self, member: str) -> Invocation | None:
        if self.inline:
            return self._newest
        return past[-1] if (past := self.members.get(member)) else None

    def _scaled(self, actors: int, now: float, before: int | None) -> None:
        """So many take part from now on; earlier versions of ARTOS did not say how many did."""
        self.actors = actors
        for member in {*self.ready, *filter(is_actor, self.members)}:
            if (rank := actor_of(member)) is None:
                continue
            if rank >= actors:
                self.left.setdefault(member, now)
            elif member in self.left or rank >= (actors if before is None else before):
                since = self.left.pop(member, self.ready.get(member, now))
                self._away.setdefault(member, []).append((since, now))
        for member, (died, _) in self._died.items():
            if not self._takes_part(member):
                self._died[member] = died, 0.0

    def _takes_part(self, member: str) -> bool:
        return not self.actors or (actor_of(member) or 0) < self.actors

    def _dies(self, line: Mapping[str, Any], now: float) -> None:
        process = line["died"]
        member = process if is_actor(process) else process.partition(" ")[0]
        # An earlier ARTOS wrote no time: it came after the line before it, maybe much later.
        pause = inf if "t" in line else FailureLimits.most_backoff
        # If nobody needs it, it is away from when it is asked for.
        self._died.setdefault(member, (now, pause if self._takes_part(member) else 0.0))
        self.deaths[member][process] += 1
        for rank in line.get("asked_by", ()):
            self._asked_by[member].setdefault(str(Member(ACTORS, rank)), now)

    def _ready(self, member: str, now: float, asked: float) -> None:
        if member not in self.members:
            self.ready.setdefault(member, now)
        if member in self._died:
            died, pause = self._died.pop(member)
            self.restarts.setdefault(member, []).append((max(died, asked - pause), now))
        for actor, since in self._asked_by.pop(member, {}).items():
            self._unanswered.setdefault((member, actor), []).append((since, now))

    def _done(self, line: Mapping[str, Any], end: float) -> None:
        member, times = line["by"], line.get("times", {})
        trigger, fired, cause, _ = self._firings.get(line["done"], _Firing("", end))
        past, before = self.members.setdefault(member, []), self._before(member)
        free = before.end if before else self.ready.get(member, self.began)
        end = max(end, free)
        restarts = self.restarts.get(member, ())
        back = restarts[-1][1] if restarts else 0.0
        called = min(end, max(free, fired))
        took = line.get("seconds", 0.0)
        if unanswered(line):  # it was at work all the time
            took = end - min(end, max(called, back))
        begin = max(free, end - took)
        called = min(called, begin)
        if restart := within(restarts, called, begin):
            # What was lost is done again; what was kept shows in how much sooner that is over.
            sooner = _usual(past, trigger) - (end - begin)
            missing = min(begin, back) - called
            saved = min(missing - restart, max(0.0, sooner))
            begin, restart = begin - saved, missing - saved
        known = {RESTART: restart, SLOT: line.get("slot", 0.0)}
        known[PROCESS] = max(0.0, line.get("waited", 0.0) - restart)  # it counts a restart, too
        known[DEVICE] = times.get(_DEVICE_WAIT, 0.0)
        kept = self._kept(called, begin, end, known)
        held = self._held(member, begin, end, trigger) if is_actor(member) else {}
        worked = {kind: s for kind, s in times.items() if not kind.startswith(_WAIT)}
        parts = (self.split or {SAMPLE: 1.0}) if is_actor(member) else worked
        work = scaled(parts or {"work": 1.0}, end - begin - sum(held.values()))
        idle_restart = within(restarts, free, called)
        away = self._away.get(member, ())
        apart = [(max(since, free), min(until, called)) for since, until in away if until > free]
        idle_away = sum(max(0.0, u - s) - within(restarts, s, u) for s, u in apart)
        self._newest = Invocation(
            member, line["done"], trigger, fired, cause, begin, end, work, kept, before,
            idle_restart, held, line.get("cpu", 0.0), idle_away,
        )  # fmt: skip
        past.append(self._newest)

    def _kept(
        self, since: float, begin: float, end: float, known: Mapping[str, float]
    ) -> dict[str, float]:
        """What the time from ``since`` to ``begin`` is due to.

        That an invocation ended is known only when the loop goes on: until then it was blocked.
        """
        left, found = begin - since, {}
        known = {**known, DISK: within(self._blocked, since, end)}
        for kind, seconds in known.items():
            if (seconds := min(left, seconds)) > 0:
                found[kind] = seconds
                left -= seconds
        if left > 0:
            found[NETWORK if self.far else HAND_OVER] = left
        return found

    def _held(self, actor: str, begin: float, end: float, trigger: str) -> dict[str, float]:
        """For how long an actor that was at work waited for servers, by server."""
        found: dict[str, float] = {}
        usual = _usual(self.members.get(actor, ()), trigger)
        for server in self.servers:
            # On a cluster each node has its own.
            here = () if self.far else self.restarts.get(server, ())
            if away := within(self._unanswered.get((server, actor), here), begin, end):
                # It may ask so rarely that it was not kept from anything for all that time.
                left = end - begin - usual - sum(found.values())
                if left > 0:
                    found[server] = min(away, left)
        return found

    def at(self, member: str, time: float, firing: int) -> Invocation | None:
        """The invocation, older than ``firing``, with which a member was busy at a time.

        Its answer may have come a moment later. If there is none, the last one before.
        """
        past = self.members.get(member, [])
        place = bisect_left(past, time - 1e-6, key=lambda each: each.end)
        places = range(min(place, len(past) - 1), -1, -1)
        there = (past[place] for place in places)
        return next((each for each in there if each.firing < firing and each.fired <= time), None)


def _usual(past: Sequence[Invocation], trigger: str) -> float:
    """How many seconds of work this trigger usually takes; 0 if that is not known."""
    took = (sum(each.work.values()) for each in past[-_USUAL:] if each.trigger == trigger)
    found = [seconds for seconds in took if seconds]
    return median(found) if found else 0.0


def within(spans: Sequence[tuple[float, float]], since: float, until: float) -> float:
    """The seconds of these spans, the newest last, that are between two times."""
    found = 0.0
    for begin, end in reversed(spans):
        if end <= since:
            break
        found += max(0.0, min(end, until) - max(begin, since))
    return found


def scaled(parts: Mapping[K, float], seconds: float) -> dict[K, float]:
    """Parts in the same proportion that add up to so many seconds."""
    whole = sum(parts.values())
    if not whole:
        return dict.fromkeys(list(parts)[:1], seconds)
    return {kind: part * seconds / whole for kind, part in parts.items()}
