"""Replay as a trigger configuration: how often rows are drawn, and how fast they are made."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from artos.buffer.samplers.patterns import Claiming, Draw, Pattern
from artos.runs.plan import Plan
from artos.specs.keys import MODEL_PARAM
from triggers.base import Trigger
from triggers.checks import counts, short, unknown_data
from triggers.draws import ample_slack, draw_faults
from triggers.events import (
    Arrived,
    Event,
    Firing,
    Joined,
    Learned,
    Left,
    Published,
    Resumed,
    Rewound,
    Shortened,
    Ungranted,
)
from triggers.pacing import parts_of
from triggers.targets import parsed
from triggers.window import Limit

_UNDER_WAY = 2
"""Updates of a trigger that the learner has to make at most: one is made, the next one waits."""


@dataclass
class RateLimit:
    """Keeps ``sampled`` within ``slack`` of ``ratio`` x (``inserted`` - ``after``), on both sides.

    Numbers are transitions, ``envs`` of them in a row. Nothing is sampled before ``after`` of them
    are there. ``granted`` are those that actors made or were told to make; they wait where they
    would run ahead, unless the learner is ``starved``: it found nothing to draw and waits for new
    transitions. It is the limiter of Reverb (``SampleToInsertRatio``), in the units of a trigger
    table.
    """

    ratio: float
    after: int
    slack: float
    inserted: int = 0
    granted: int = 0
    sampled: int = 0
    starved: bool = False
    envs: int = 1

    def may_sample(self, count: int) -> bool:
        """Whether ``count`` transitions may be drawn now; none always may."""
        if not count:
            return True
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

    With ``source="demos"`` all rows of a batch are of the data set that the workload calls so, and
    with ``source={"demos": 64}`` 64 of its ``batch`` picks are, the others live rows. ``ratio``,
    ``after``, ``slack`` and ``max_lag`` are about live rows. A batch that has none is drawn as soon
    as the learner is free: say by the run's ``total_updates`` how often.
    """

    keys: tuple[str, ...]
    sample: Pattern
    ratio: float = 1.0
    after: int = 1_000
    slack: float | None = None
    max_lag: int | None = None
    source: str | Mapping[str, int] = ""
    data: dict[str, int] = field(init=False, repr=False, compare=False, default_factory=dict)
    limit: RateLimit = field(init=False, repr=False, compare=False)
    target: str = field(init=False, repr=False, compare=False, default="")
    weights: str = field(init=False, repr=False, compare=False, default=MODEL_PARAM)
    policy: str = field(init=False, repr=False, compare=False, default="")
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
        self.data = self._picks()
        self.limit = RateLimit(self.ratio, self.after, self.slack or 0.0)
        if not self.live_rows:  # none of them has to be there, and none paces anybody
            self.limit = RateLimit(0.0, 0, 0.0)

    def _picks(self) -> dict[str, int]:
        """How many picks of a batch are of each data set."""
        if isinstance(self.source, str):
            return {self.source: self.sample.batch} if self.source else {}
        if isinstance(self.source, Mapping):
            return dict(self.source)
        raise TypeError(
            f'source={self.source!r}: name a data set, source="demos", or say how many picks of a '
            f'batch are of it, source={{"demos": {max(1, int(self.sample.batch) // 4)}}}'
        )

    @property
    def live_rows(self) -> int:
        """Live transitions in a batch."""
        picks = sum(self.data.values())
        return self.sample.rows - picks * (self.sample.rows // max(1, self.sample.batch))

    @property
    def successors(self) -> bool:
        """As its pattern says."""
        return self.sample.successors

    def words(self) -> str:
        """How rows are drawn, and how often."""
        many = f"{self.sample.batch} {type(self.sample).__name__.lower()}"
        initial = getattr(self.sample, "initial", "")
        first = f" (first by {initial})" if initial else ""
        her = getattr(self.sample, "her", 0)
        goals = f", {her:g} of them with a goal that was reached later" if her else ""
        bound = "" if self.max_lag is None else f", at most {self.max_lag} versions old"
        of = "".join(f", {picks} of them of {name}" for name, picks in self.data.items())
        what = f"{many} draws{first} of {short(self.keys)}{of}{goals}{bound}"
        if not self.live_rows:
            return f"{what}; as soon as the learner is free"
        return (
            f"{what}; each {'live ' * bool(of)}row {self.ratio:g} times, within "
            f"{self.limit.slack:g} draws, once {self.after} are there"
        )

    def faults(self, plan: Plan) -> Iterator[str]:
        """Batches that cannot be drawn, or not at this ratio."""
        yield from unknown_data(self.keys, plan)
        yield from counts(0, max_lag=self.max_lag)
        yield from draw_faults(self, plan)

    def misfit(self, target: str) -> str:
        """Only the learner draws."""
        if parsed(target).learns:
            return ""
        return "a ReplayTrigger hands over a batch: let a learner method take it"

    def complete(self, target: str, plan: Plan, table: Mapping[str, Trigger]) -> None:
        """Its target, and as much slack as lets learner and actors both work."""
        role = parsed(target).role
        self.target, self.weights = target, plan.weights_of(role)
        self.policy, self.limit.envs = plan.policy_of(role), plan.rows_of(role).envs
        if self.live_rows and self.slack is None and isinstance(self.ratio, int | float):
            self.limit.slack = ample_slack(plan, self)

    def bound(self, max_lag: int, lead: int) -> None:
        """The learner is told with each of its draws."""
        if self.max_lag is not None:
            self.max_lag = max_lag

    @property
    def draw(self) -> Draw:
        """For the learner's method, with the names that it has for the rows of its policy."""
        keys = tuple(key.removeprefix(f"{self.policy}/") for key in self.keys)
        return Draw(self.target, keys, self.sample, self.max_lag, self.data)

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
            case Published(key=self.weights):
                self._version = event.version
            case Learned(trigger=self.target) if self._under_way:
                # The oldest draw under way has ended; what it found is as old as its firing.
                news = self._under_way.popleft()
                if not event.drew:
                    self.limit.sampled -= self.live_rows
                    self._in_vain = max(self._in_vain, news)
        self.limit.starved = self._news <= self._in_vain
        if (
            self._version < 0
            or self.limit.starved
            or len(self._under_way) >= _UNDER_WAY
            or not self.limit.may_sample(self.live_rows)
        ):
            return None
        self._under_way.append(self._news)
        self.limit.sampled += self.live_rows
        return Firing(keys=self.keys, version=self._version)

    def _count(self, actor: int, arrived: Mapping[str, int]) -> None:
        rows = self._arrived.setdefault(actor, dict.fromkeys(self.keys, 0))
        before = min(rows.values())
        rows.update((key, arrived[key]) for key in self.keys if key in arrived)
        more = min(rows.values()) - before
        self._news += more > 0
        self.limit.inserted += more * self.limit.envs


@dataclass
class RoundTrigger(Trigger):
    """Fires one round of sampling after the other: each actor samples on, without waiting.

    An actor has ``ahead`` rounds to sample: one is sampled, the others wait. It is asked for one
    more whenever one is there, in all ``keys`` of its rows (empty: keys come together, as they do
    without a transfer). Beside a ``ReplayTrigger`` it waits where more rows would exceed that one's
    ratio, beside ``Episodes(n)`` while there are n of them that the learner is not done with.
    """

    ahead: int = 2
    limits: tuple[Limit, ...] = field(init=False, repr=False, compare=False, default=())
    steps: int = field(init=False, repr=False, compare=False, default=1)
    keys: tuple[str, ...] = field(init=False, repr=False, compare=False, default=())
    target: str = field(init=False, repr=False, compare=False, default="actors.sample")
    _members: set[int] = field(init=False, repr=False, compare=False, default_factory=set)
    _arrived: dict[int, dict[str, int]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    _asked: Counter[int] = field(init=False, repr=False, compare=False, default_factory=Counter)
    _done: Counter[int] = field(init=False, repr=False, compare=False, default_factory=Counter)
    _turns: deque[int] = field(init=False, repr=False, compare=False, default_factory=deque)

    def words(self) -> str:
        """It waits for its own rounds."""
        return f"the end of its last round, up to {self.ahead} rounds ahead"

    def faults(self, plan: Plan) -> Iterator[str]:
        """``ahead`` is a number."""
        return counts(1, ahead=self.ahead)

    def misfit(self, target: str) -> str:
        """Only actors sample."""
        return (
            ""
            if parsed(target).samples
            else 'a RoundTrigger asks for rounds: write "actors.sample"'
        )

    def complete(self, target: str, plan: Plan, table: Mapping[str, Trigger]) -> None:
        """Actors keep to the limits of all triggers of the table.

        Keys that are transferred come one after the other; a round is there once all of these are.
        """
        self.steps, parts = plan.steps, [*parts_of(table)]
        self.limits = tuple(part.limit for part in parts if part.limit is not None)
        self.keys = tuple({key: None for p in parts for stage in p.stages() for key in stage})

    def check(self, event: Event, now: float) -> Firing | None:
        """Rounds of one actor at a time, in turn: who got some and wants more waits its turn again.

        Else whoever samples faster than the ratio allows would get every round there is.
        """
        match event:
            case Joined():
                self._members.add(event.actor)
                self._line_up(event.actor)
            case Left():
                self._members.discard(event.actor)
                self._turns = deque(actor for actor in self._turns if actor != event.actor)
            case Resumed():
                self._asked[event.actor] = self._done[event.actor] = event.rows
                self._arrived[event.actor] = dict.fromkeys(self.keys, event.rows)
                for limit in self.limits:
                    limit.granted += event.rows * limit.envs
            case Arrived():
                self._count(event.actor, event.written)
            case Rewound() if event.actor in self._arrived:
                known = self._arrived[event.actor]
                known.update((key, min(rows, event.rows)) for key, rows in known.items())
            case Ungranted(trigger=self.target):
                self._return(event.actor, self.steps)
                return None  # until something else has happened
            case Shortened(trigger=self.target):
                self._return(event.actor, event.rows)
        if not self._turns:
            return None
        # As many rounds of the actor whose turn it is as may be made now.
        actor, rounds = self._turns.popleft(), 0
        while self._wants(actor) and self._may_insert():
            self._asked[actor] += self.steps
            rounds += 1
        if self._wants(actor):
            wait = self._turns.append if rounds else self._turns.appendleft
            wait(actor)
        return Firing(actors=(actor,), rounds=rounds, ahead=self.ahead) if rounds else None

    def _wants(self, actor: int) -> bool:
        return self._asked[actor] - self._done[actor] <= (self.ahead - 1) * self.steps

    def _return(self, actor: int, rows: int) -> None:
        """The actor does not sample these rows that it was asked for."""
        self._asked[actor] -= rows
        for limit in self.limits:
            limit.granted -= rows * limit.envs
        self._line_up(actor)

    def _line_up(self, actor: int) -> None:
        if actor in self._members and self._wants(actor) and actor not in self._turns:
            self._turns.append(actor)

    def _count(self, actor: int, written: Mapping[str, int]) -> None:
        """Rounds are done as the run's books count them: once they are there in all keys."""
        known = self._arrived.setdefault(actor, dict.fromkeys(self.keys, 0))
        known.update(written)
        # Void rows come once more.
        self._done[actor] = max(min(known.values()), self._done[actor])
        self._line_up(actor)

    def _may_insert(self) -> bool:
        """Whether one more round may be made; it is booked then."""
        if not all(limit.may_insert(self.steps * limit.envs) for limit in self.limits):
            return False
        for limit in self.limits:
            limit.granted += self.steps * limit.envs
        return True
