"""Where the seconds of a run's members went: work and waits, in seconds and as shares."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from math import inf
from typing import Any

from artos.specs.members import Member

_WAIT = "wait"
"""Kinds of time with this prefix are waits, for an invocation or for room."""
WAITED = (0.001, 0.004, 0.016, 0.064, 0.256, 1.0, 4.0, 16.0, 64.0, inf)
"""Upper bounds, in seconds, of the classes in which waits are counted."""


class MemberTimes:
    """The seconds of one member, or of several together, by kind.

    With each answer a member reports what it spent every second on since its last answer, so their
    sum is the wall time of its process, without the time that it spent as an image.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def spend(self, times: Mapping[str, float]) -> None:
        """Add the times of an answer."""
        for kind, seconds in times.items():
            self.seconds[kind] = self.seconds.get(kind, 0.0) + seconds

    @property
    def wall(self) -> float:
        """All its seconds."""
        return sum(self.seconds.values())

    @property
    def work(self) -> float:
        """The seconds not spent waiting."""
        return self.wall - self.wait

    @property
    def wait(self) -> float:
        """The seconds spent waiting."""
        return sum(spent for kind, spent in self.seconds.items() if kind.startswith(_WAIT))

    def shares(self) -> dict[str, float]:
        """Shares of its wall time by kind, work before waits."""
        wall = self.wall
        kinds = sorted(self.seconds, key=lambda kind: kind.startswith(_WAIT))
        return {kind: self.seconds[kind] / wall for kind in kinds} if wall else {}

    def facts(self) -> dict[str, Any]:
        """``wall``, ``work`` and ``wait`` in seconds, and the ``shares`` by kind."""
        shares = {kind: round(share, 4) for kind, share in self.shares().items()}
        rounded = {"wall": self.wall, "work": self.work, "wait": self.wait}
        return {name: round(value, 6) for name, value in rounded.items()} | {"shares": shares}


class Times:
    """The seconds of all members, by role (``learner``, ``actors``) and each one's own."""

    def __init__(self) -> None:
        self._roles: dict[str, MemberTimes] = {}
        self._members: dict[str, MemberTimes] = {}
        self._waited: dict[str, list[int]] = {}

    def spend(self, member: Member, times: Mapping[str, float]) -> None:
        """Add the times of a member's answer; what it waited for one kind is one wait."""
        for kind, seconds in times.items():
            if kind.startswith(_WAIT):
                counts = self._waited.setdefault(f"{member.role}.{kind}", [0] * len(WAITED))
                counts[bisect_left(WAITED, seconds)] += 1
        self._roles.setdefault(member.role, MemberTimes()).spend(times)
        self._members.setdefault(str(member), MemberTimes()).spend(times)

    def of(self, role: str) -> MemberTimes:
        """The times of the members in a role together."""
        return self._roles.get(role, MemberTimes())

    def seconds(self) -> dict[str, float]:
        """Seconds by kind, summed over members; waits by role, too, as ``actors.wait``."""
        found: dict[str, float] = {}
        for role, spent in self._roles.items():
            for kind, seconds in spent.seconds.items():
                name = f"{role}.{kind}" if kind.startswith(_WAIT) else kind
                found[name] = found.get(name, 0.0) + seconds
        return found

    def waited(self) -> dict[str, int]:
        """Waits by role, kind and class (``actors.wait/0.016``); all classes of a kind at once."""
        return {
            f"{kind}/{most:g}": number
            for kind, counts in self._waited.items()
            for most, number in zip(WAITED, counts, strict=True)
        }

    def shares(self) -> dict[str, float]:
        """Shares of the wall time of the learner, and of the actors together: ``actors.wait``."""
        return {
            f"{role}.{kind}": share
            for role, spent in sorted(self._roles.items())
            for kind, share in spent.shares().items()
        }

    def by_member(self) -> dict[str, dict[str, Any]]:
        """``MemberTimes.facts`` of each member, as ``learner`` and ``actor 0``."""
        return {name: spent.facts() for name, spent in self._members.items()}

    def __repr__(self) -> str:
        return f"<Times of {len(self._members)} members>"
