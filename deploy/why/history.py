"""What the members of a run did when, from the lines of its journal. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from artos.specs.members import actor_of
from deploy.tracing.lines import goes_on_anew

HAND_OVER, NETWORK = "hand-over", "network"
"""What is left between a firing and the work that it caused, here and on a cluster."""
DISK, SLOT, PROCESS, DEVICE = "disk", "slot", "process", "device"
SAMPLE = "sample"
_DEVICE_WAIT = "wait_for_device"
_WAIT = "wait"


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
    """Seconds by kind, ``end - begin`` in all."""
    kept: dict[str, float]
    """What kept it from beginning once it was fired and the member was free, seconds by kind."""
    before: Invocation | None
    """The one before of the same member."""

    @property
    def free(self) -> float:
        """When its member had nothing else to do."""
        return self.before.end if self.before else 0.0


@dataclass
class History:
    """The invocations of each member, oldest first, of the run's last part.

    ``split`` says by kind what actors do while they sample, as shares; ``far`` whether actors are
    on other machines than the learner.
    """

    split: Mapping[str, float] = field(default_factory=dict)
    far: bool = False
    members: dict[str, list[Invocation]] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)
    quota: str = ""
    """Which quota last kept slots from the actors."""
    queued: float = 0.0
    """Seconds for which the run's loop waited for a CPU."""
    cpu: float = 0.0
    """CPU-seconds that learners used for their updates."""
    began: float = 0.0
    """Time of the first line that was read: of a long journal, only its end is."""
    ended: float = 0.0
    """Time of the last line."""
    _firings: dict[int, tuple[str, float, str]] = field(default_factory=dict)
    _blocked: list[tuple[float, float]] = field(default_factory=list)

    def read(self, lines: Iterable[Mapping[str, Any]]) -> History:
        """Take in these lines, in their order."""
        for number, line in enumerate(lines):
            t = line.get("t", self.ended)
            if not number:
                self.began = t
            if goes_on_anew(line, self.ended):  # what was before is another part
                for each in (self.members, self.ready, self._firings, self._blocked):
                    each.clear()
                self.quota, self.cpu, self.queued, self.ended = "", 0.0, 0.0, 0.0
                self.began = 0.0
            self.ended = max(self.ended, t)
            if "firing" in line:
                self._firings[line["firing"]] = line["trigger"], t, line.get("after", "")
            elif "done" in line:
                self._done(line, t)
            elif "ready" in line:
                if line["ready"] not in self.members:
                    self.ready.setdefault(line["ready"], t)
            elif "blocked" in line:
                self._blocked.append((t - line["blocked"], t))
            elif "queued" in line:
                self.queued += line["queued"]
            elif "quota" in line:
                self.quota = line["quota"] or self.quota
        return self

    def _done(self, line: Mapping[str, Any], end: float) -> None:
        member, times = line["by"], line.get("times", {})
        trigger, fired, cause = self._firings.get(line["done"], ("", end, ""))
        past = self.members.setdefault(member, [])
        before = past[-1] if past else None
        free = before.end if before else self.ready.get(member, self.began)
        end = max(end, free)
        begin = max(free, end - line.get("seconds", 0.0))
        self.cpu += line.get("cpu", 0.0)
        known = {SLOT: line.get("slot", 0.0), PROCESS: line.get("waited", 0.0)}
        known[DEVICE] = times.get(_DEVICE_WAIT, 0.0)
        kept = self._kept(min(begin, max(free, fired)), begin, end, known)
        worked = {kind: s for kind, s in times.items() if not kind.startswith(_WAIT)}
        parts = (self.split or {SAMPLE: 1.0}) if is_actor(member) else worked
        work = scaled(parts or {"work": 1.0}, end - begin)
        past.append(
            Invocation(member, line["done"], trigger, fired, cause, begin, end, work, kept, before)
        )

    def _kept(
        self, since: float, begin: float, end: float, known: Mapping[str, float]
    ) -> dict[str, float]:
        """What the time from ``since`` to ``begin`` is due to.

        That an invocation ended is known only when the loop goes on: until then it was blocked.
        """
        left, found = begin - since, {}
        known = {**known, DISK: self._blocked_within(since, end)}
        for kind, seconds in known.items():
            if (seconds := min(left, seconds)) > 0:
                found[kind] = seconds
                left -= seconds
        if left > 0:
            found[NETWORK if self.far else HAND_OVER] = left
        return found

    def _blocked_within(self, since: float, until: float) -> float:
        found = 0.0
        for begin, end in reversed(self._blocked):
            if end <= since:
                break
            found += max(0.0, min(end, until) - max(begin, since))
        return found

    def at(self, member: str, time: float, firing: int) -> Invocation | None:
        """The invocation, older than ``firing``, with which a member was busy at a time.

        Its answer may have come a moment later. If there is none, the last one before.
        """
        past = self.members.get(member, [])
        place = bisect_left(past, time - 1e-6, key=lambda each: each.end)
        for each in reversed(past[: place + 1]):
            if each.firing < firing and each.fired <= time:
                return each
        return None


def scaled(parts: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Parts in the same proportion that add up to so many seconds."""
    whole = sum(parts.values())
    if not whole:
        return dict.fromkeys(list(parts)[:1], seconds)
    return {kind: part * seconds / whole for kind, part in parts.items()}
