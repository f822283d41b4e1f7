"""The invocations of a run's journal: how long each took its member, and the slot that it held.

A member says how many seconds it sampled or learned. To be woken, to bind weights and to be heard
takes more, and the journal has all of it: when each invocation was fired, and when its answer was
read. What a member waited for meanwhile is left out: its invocations before, and its slot.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any, NamedTuple

LEARNER = "learner"
"""As journals have it: its answers are compared, as they also tell when a version was there."""


class Invocation(NamedTuple):
    """One invocation."""

    target: str
    asked: float
    """When its member could begin."""
    ended: float
    """When it was over."""
    seconds: float
    """Those that the member told."""
    version: int
    drew: bool = True
    """False if it found nothing to do."""

    @property
    def began(self) -> float:
        """When its member began to work."""
        return self.ended - self.seconds


class Invocations:
    """Those of one member, in order: by columns, as a run of weeks has millions."""

    def __init__(self) -> None:
        self._targets: list[str] = []
        self._asked, self._ended, self._seconds = array("d"), array("d"), array("d")
        self._versions, self._drew = array("q"), array("b")

    def append(self, one: Invocation) -> None:
        """Add the next one."""
        self._targets.append(one.target)
        self._asked.append(one.asked)
        self._ended.append(one.ended)
        self._seconds.append(one.seconds)
        self._versions.append(one.version)
        self._drew.append(one.drew)

    def tighten(self, ready: float) -> None:
        """A member that is ready then does one after the other: each was over when the next began.

        Answers may be read late, and then several at once.
        """
        begins = float("inf")
        for at in reversed(range(len(self._ended))):
            self._ended[at] = min(self._ended[at], begins)
            begins = self._ended[at] - self._seconds[at]
        free = ready
        for at, ended in enumerate(self._ended):
            self._asked[at], free = max(self._asked[at], free), ended

    def __iter__(self) -> Iterator[Invocation]:
        return map(
            Invocation,
            self._targets, self._asked, self._ended, self._seconds, self._versions,
            map(bool, self._drew),
        )  # fmt: skip


class _Firings:
    """Target and time of each firing, by columns; numbers grow.

    How many members answer to one is nowhere said, so none is dropped.
    """

    def __init__(self) -> None:
        self._numbers, self._times, self._targets = array("q"), array("d"), list[str]()

    def append(self, line: Mapping[str, Any]) -> None:
        self._numbers.append(line["firing"])
        self._times.append(line["t"])
        self._targets.append(intern(line["trigger"]))

    def __getitem__(self, number: int) -> tuple[str, float]:
        at = bisect_left(self._numbers, number)
        if at == len(self._numbers) or self._numbers[at] != number:
            raise KeyError(number)
        return self._targets[at], self._times[at]


@dataclass
class Course:
    """What a journal tells of a run, in seconds since that began."""

    members: dict[str, Invocations] = field(default_factory=dict)
    """The invocations of each."""
    starts: dict[str, tuple[float, float]] = field(default_factory=dict)
    """When each was first set up, and how long after it was asked for."""
    ended: float = 0.0
    """When the last line was written."""


def course_of(lines: Iterable[Mapping[str, Any]]) -> Course:
    """The course of a run that was not resumed; goes through the lines once and keeps none."""
    course, fired = Course(), _Firings()
    known: dict[int, float] = {}  # version → when triggers knew of it
    ready: dict[str, float] = {}
    for line in lines:
        course.ended = line.get("t", course.ended)
        if "firing" in line:
            fired.append(line)
            known.setdefault(line["version"], line["t"])
        elif "ready" in line:
            ready.setdefault(line["ready"], line["t"])
            if line.get("seconds") is not None:
                course.starts.setdefault(line["ready"], (line["t"], line["seconds"]))
        elif "done" in line and "seconds" in line:
            of_member = course.members.setdefault(line["by"], Invocations())
            target, asked = fired[line["done"]]
            ended, version = line["t"], line.get("version", 0)
            learned = line["by"] == LEARNER
            if learned:  # its weights may be known before its answer is read
                published = known.get(version, ended)
                ended = min(ended, published) if asked < published else ended
            drew = "nothing" not in line
            of_member.append(Invocation(target, asked, ended, line["seconds"], version, drew))
            if learned:  # it tells of no version before this one again
                known = {at: when for at, when in known.items() if at >= version}
    for member, of_member in course.members.items():
        of_member.tighten(ready.get(member, 0.0))
    return course


def alone(of_member: Iterable[Invocation]) -> Iterator[tuple[str, float]]:
    """Target and duration of the invocations of a member that waits for no slot."""
    for each in of_member:
        yield each.target, max(each.seconds, each.ended - each.asked)


def with_slots(
    members: Iterable[Iterable[Invocation]], slots: int | None
) -> Iterator[tuple[str, float]]:
    """Target and duration of the invocations of members that took turns on so many slots.

    When the j-th begins, at least j - ``slots`` of those that began before it are over, so it had
    waited until then for its slot. None: nothing is known of slots, so what members tell counts.
    """
    under_way: list[float] = []
    for each in heapq.merge(*members, key=lambda one: one.began):
        began = each.began
        if slots is not None:
            freed = heapq.heappop(under_way) if len(under_way) >= slots else 0.0
            heapq.heappush(under_way, each.ended)
            began = min(began, max(each.asked, freed))
        yield each.target, each.ended - began
