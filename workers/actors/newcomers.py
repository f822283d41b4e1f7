"""Actors made before they are wanted: which one next, and with how large a share of a CPU.

Making an actor takes CPU time, mostly for the first reset of its environments (0.7 s for four
emulators of Pong). If learner and actors already use all CPUs, that time is taken from them. So
newcomers are made one after the other, and slowly: just fast enough to be ready when wanted.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from artos.clock import Clock
from artos.specs.members import Member
from workers.actors.usage import Accounts
from workers.host import priority

_PRIOR = 1.0  # CPU seconds to make an actor, until one was made
_EARLY = 0.85  # of the time that is left; the rest is for what takes longer than expected
_LEAST = 0.01
_WINDOW = 5


@dataclass
class _Making:
    """A start under way."""

    before: float
    """The actor's CPU seconds when the start began."""
    pid: int = 0
    """Its process, 0 before there is one."""


class Newcomers:
    """Expected actors, in the order in which they were asked for; ``at_once`` are made at a time.

    ``spawn`` requests a member's process. An actor that is wanted earlier than expected must
    ``leave``.
    """

    def __init__(
        self,
        at_once: int,
        spawn: Callable[[Member], None],
        accounts: Accounts,
        clock: Clock,
    ) -> None:
        self._at_once, self._spawn = at_once, spawn
        self._accounts, self._clock = accounts, clock
        self._rivals = priority.rivals()
        self._wanted: dict[Member, float] = {}
        self._making: dict[Member, _Making] = {}
        self._costs: deque[float] = deque(maxlen=_WINDOW)

    def __contains__(self, member: Member) -> bool:
        return member in self._wanted

    def expect(self, member: Member, seconds: float) -> None:
        """Have an actor ready in so many seconds; a later call corrects that."""
        self._wanted[member] = self._clock.now() + seconds
        self._begin()

    def spawned(self, member: Member, pid: int) -> None:
        """Note the process of an actor, if it is a newcomer; it leads its process group."""
        if making := self._making.get(member):
            making.pid = pid
            self._adjust()

    def ready(self, member: Member) -> None:
        """Note that an actor is set up."""
        if member in self._making:
            self._costs.append(self._spent(member))
            self.leave(member)
            self._begin()

    def leave(self, member: Member) -> None:
        """Drop an actor that is wanted now, or no longer; if it is being made, speed that up."""
        self._wanted.pop(member, None)
        making = self._making.pop(member, None)
        if making is not None and making.pid:
            priority.usual(making.pid)

    def tick(self) -> None:
        """Begin with the next newcomers, as far as there is room. Called a few times a second."""
        self._begin()
        self._adjust()

    @property
    def share(self) -> float:
        """The share of a CPU (0.01 to 1) that each one being made needs for all to be in time."""
        left = _EARLY * (min(self._wanted.values(), default=0.0) - self._clock.now())
        cost = statistics.median(self._costs or (_PRIOR,))
        work = sum(max(cost - self._spent(member), cost / 10) for member in self._wanted)
        together = min(self._at_once, len(self._wanted))
        return max(_LEAST, min(1.0, work / together / left)) if left > 0 else 1.0

    def _begin(self) -> None:
        for member in tuple(self._wanted):
            if member not in self._making and len(self._making) < self._at_once:
                self._making[member] = _Making(self._used(member))
                self._spawn(member)

    def _adjust(self) -> None:
        by = priority.niceness_for(self.share, self._rivals)
        for making in self._making.values():
            if making.pid:
                priority.lower(making.pid, by)

    def _spent(self, member: Member) -> float:
        making = self._making.get(member)
        return self._used(member) - making.before if making else 0.0

    def _used(self, member: Member) -> float:
        return self._accounts.used_seconds(member.rank)

    def __repr__(self) -> str:
        return f"<Newcomers {[*self._wanted]}, {[*self._making]} being made>"
