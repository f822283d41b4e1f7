"""Replay as a trigger configuration: how often rows are drawn, and how fast they are made."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from artos.buffer.samplers.patterns import Claiming, Pattern
from triggers.base import (
    Arrived,
    Event,
    Firing,
    Joined,
    Learned,
    Left,
    Published,
    Resumed,
    Rewound,
    Trigger,
)

_UNDER_WAY = 2
"""Updates of a trigger that the learner has to make at most: one is made, the next one waits."""


@dataclass
class RateLimit:
    """Keeps ``sampled`` within ``slack`` of ``ratio`` x (``inserted`` - ``after``), on both sides.

    Numbers are transitions. Nothing is sampled before ``after`` of them are there. ``granted`` are
    those that actors made or were told to make; they wait where they would run ahead, unless the
    learner is ``starved``: it found nothing to draw and waits for new transitions. It is the
    limiter of Reverb (``SampleToInsertRatio``), in the units of a trigger table.
    """

    ratio: float
    after: int
    slack: float
    inserted: int = 0
    granted: int = 0
    sampled: int = 0
    starved: bool = False

    def may_sample(self, count: int) -> bool:
        """Whether ``count`` transitions may be drawn now."""
        enough = self.inserted >= max(1, self.after)
        return enough and self._due(self.inserted) - self.sampled - count >= -self.slack

    def may_insert(self, count: int) -> bool:
        """Whether actors may be told to make ``count`` more transitions."""
        warming_up = self.granted < self.after
        due = self._due(self.granted + count) - self.sampled
        return warming_up or self.starved or due <= self.slack

    def balance(self) -> None:
        """As if the ratio had been kept exactly so far."""
        self.sampled = max(0, round(self._due(self.inserted)))

    def _due(self, inserted: int) -> float:
        return self.ratio * (inserted - self.after)


@dataclass
class ReplayTrigger(Trigger):
    """Fires an update on a batch that is drawn from the replay buffer (paper Table 1).

    ``sample`` says how the batch is drawn (``Uniform``, ``Prioritised``, ``Sequences``); the
    learner's method gets it as its ``batch``. On average every transition is drawn ``ratio`` times
    once ``after`` of them are there; ``slack`` is by how many draws learner or actors may be ahead
    of that (None: as few as let both of them work at once). ``max_lag`` leaves out transitions of
    policies more than that many versions old. Rows are read, not claimed: use
    ``on_full="overwrite"`` and say by ``capacity`` how many the buffer holds.

    A draw that finds no transition is given back, and the next one waits for new rows.
    """

    keys: tuple[str, ...]
    sample: Pattern
    ratio: float = 1.0
    after: int = 1_000
    slack: float | None = None
    max_lag: int | None = None
    limit: RateLimit = field(init=False, repr=False, compare=False)
    target: str = field(init=False, repr=False, compare=False, default="")
    envs: int = field(init=False, repr=False, compare=False, default=1)
    _arrived: dict[int, dict[str, int]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    _news: int = field(init=False, repr=False, compare=False, default=0)
    _in_vain: int = field(init=False, repr=False, compare=False, default=-1)
    _under_way: deque[int] = field(init=False, repr=False, compare=False, default_factory=deque)
    _version: int = field(init=False, repr=False, compare=False, default=-1)

    def __post_init__(self) -> None:
        self.keys = (self.keys,) if isinstance(self.keys, str) else tuple(self.keys)
        try:  # also from a plan, where it is plain data
            self.sample = msgspec.convert(msgspec.to_builtins(self.sample), Pattern)
        except msgspec.ValidationError as error:
            wanted = f"sample says how to draw, e.g. Uniform(256), not {self.sample!r}"
            if isinstance(self.sample, Claiming):
                wanted += ", which is for a DataKeyTrigger"
            raise TypeError(f"{wanted}: {error}") from error
        self.limit = RateLimit(self.ratio, self.after, self.slack or 0.0)

    @property
    def successors(self) -> bool:
        """As its pattern says."""
        return self.sample.successors

    def check(self, event: Event, now: float) -> Firing | None:
        """At most two updates at a time: one is made, the next one waits for its end."""
        match event:
            case Arrived():
                self._count(event.actor, event.written)
            case Resumed():
                self._count(event.actor, dict.fromkeys(self.keys, event.rows))
                self.limit.balance()
            case Rewound() if event.actor in self._arrived:
                known = self._arrived[event.actor]
                self._count(event.actor, {key: min(n, event.rows) for key, n in known.items()})
            case Published(key="model_param"):
                self._version = event.version
            case Learned(trigger=self.target) if self._under_way:
                self._learned(event.drew)
        self.limit.starved = self._news <= self._in_vain
        if (
            self._version < 0
            or self.limit.starved
            or len(self._under_way) >= _UNDER_WAY
            or not self.limit.may_sample(self.sample.rows)
        ):
            return None
        self._under_way.append(self._news)
        self.limit.sampled += self.sample.rows
        return Firing(keys=self.keys, version=self._version)

    def _learned(self, drew: bool) -> None:
        """The oldest draw under way has ended; what it found is as old as its firing."""
        news = self._under_way.popleft()
        if not drew:
            self.limit.sampled -= self.sample.rows
            self._in_vain = max(self._in_vain, news)

    def _count(self, actor: int, arrived: Mapping[str, int]) -> None:
        rows = self._arrived.setdefault(actor, dict.fromkeys(self.keys, 0))
        before = min(rows.values())
        rows.update((key, arrived[key]) for key in self.keys if key in arrived)
        more = min(rows.values()) - before
        self._news += more > 0
        self.limit.inserted += more * self.envs


@dataclass
class RoundTrigger(Trigger):
    """Fires one round of sampling after the other: each actor samples on, without waiting.

    An actor is asked for ``ahead`` rounds at first, and for one more whenever one is there. Beside
    a ``ReplayTrigger`` it waits where more rows would exceed that one's ratio.
    """

    ahead: int = 2
    limits: tuple[RateLimit, ...] = field(init=False, repr=False, compare=False, default=())
    steps: int = field(init=False, repr=False, compare=False, default=1)
    envs: int = field(init=False, repr=False, compare=False, default=1)
    _members: set[int] = field(init=False, repr=False, compare=False, default_factory=set)
    _done: dict[int, int] = field(init=False, repr=False, compare=False, default_factory=dict)
    _turns: deque[tuple[int, int]] = field(
        init=False, repr=False, compare=False, default_factory=deque
    )

    def check(self, event: Event, now: float) -> Firing | None:
        """Rounds of one actor at a time, in the order in which actors became free."""
        match event:
            case Joined():
                self._members.add(event.actor)
                self._turns.append((event.actor, self.ahead))
            case Left():
                self._members.discard(event.actor)
                self._turns = deque(turn for turn in self._turns if turn[0] != event.actor)
            case Resumed():
                self._done[event.actor] = event.rows // self.steps
                for limit in self.limits:
                    limit.granted += event.rows * self.envs
            case Arrived():
                self._arrived(event.actor, max(event.written.values()) // self.steps)
        return self._next() if self._turns else None

    def _next(self) -> Firing | None:
        """As many rounds of the actor whose turn it is as may be made now."""
        actor, wanted = self._turns.popleft()
        rounds = next((n for n in range(wanted) if not self._may_insert()), wanted)
        if rounds < wanted:
            self._turns.appendleft((actor, wanted - rounds))
        return Firing(actors=(actor,), rounds=rounds) if rounds else None

    def _arrived(self, actor: int, rounds: int) -> None:
        more = rounds - self._done.get(actor, 0)
        self._done[actor] = max(rounds, self._done.get(actor, 0))  # void rows come once more
        if more > 0 and actor in self._members:
            self._turns.append((actor, more))

    def _may_insert(self) -> bool:
        """Whether one more round may be made; it is booked then."""
        rows = self.steps * self.envs
        if not all(limit.may_insert(rows) for limit in self.limits):
            return False
        for limit in self.limits:
            limit.granted += rows
        return True
