"""The trigger on data keys (paper §4.2)."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from artos.buffer.samplers.patterns import Claiming, Episodes
from artos.protocol.invocations import Claim
from artos.specs.keys import MODEL_PARAM
from triggers.base import Trigger
from triggers.checks import WITHOUT_ROWS, counts, plural, short, unknown_data, unknown_object
from triggers.events import Arrived, Event, Firing, Joined, Left, Published, Resumed, Rewound
from triggers.membership import Membership
from triggers.pacing import is_of_some, paced
from triggers.supply import Supply
from triggers.targets import parsed
from triggers.whole_episodes import WholeEpisodes
from triggers.window import Demand, Window

if TYPE_CHECKING:
    from artos.runs.plan import Plan


@dataclass
class DataKeyTrigger(Trigger):
    """``DataKeyTrigger(keys, n, size)`` of paper §4.2: ``size`` rows of ``keys`` from ``n`` actors.

    Claims exactly those rows: each row is handed over once, actors in the order in which they
    became ready. ``sample=Episodes(n)`` has whole episodes in place of rows: ``WholeEpisodes``.

    While actors join and leave, a full batch holds the rounds that were granted together: it does
    not wait for an actor that joined later, and it includes the rows of one that leaves, so no
    update is delayed and all rows are used. With a number ``n``, rows of actors that left count
    too.

    With ``max_lag``, rows that will be more than that many versions old when they are consumed are
    never handed over, assuming that each invocation makes at most one version. Producers are paced
    so that this is rare, and rows that are given up are reported in ``Firing.dropped``. The code
    that grants rounds may share a ``window`` with it.
    """

    keys: tuple[str, ...]
    n: int | None = None  # None: all present actors, a full batch; 1: FIFO per actor
    size: int = 1
    max_lag: int | None = None  # versions; None: rows of any age
    object_key: str = "model_param"
    sample: InitVar[Claiming | None] = None  # says ``n`` by the names of Table 1
    episodes: int | None = None  # the n of Episodes(n); None: rows
    window: Window = field(init=False, repr=False, compare=False, default_factory=Window)
    _supplies: dict[int, Supply] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    _members: Membership = field(init=False, repr=False, compare=False, default_factory=Membership)
    _ready: OrderedDict[int, None] = field(
        init=False, repr=False, compare=False, default_factory=OrderedDict
    )
    # The newest version, and the invocations that make one more each before the next rows are used.
    _version: int = field(init=False, repr=False, compare=False, default=0)
    _ahead: int = field(init=False, repr=False, compare=False, default=0)
    limit: WholeEpisodes | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self, sample: Claiming | None) -> None:
        self.keys = (self.keys,) if isinstance(self.keys, str) else tuple(self.keys)
        if sample is not None and not isinstance(sample, Claiming):
            kinds = "FullBatch(), FIFO(n) or Episodes(n)"
            raise TypeError(f"rows are claimed here: {kinds}; {sample} draws them")
        if sample is not None and self.n is not None:
            raise TypeError(f"say n={self.n} or sample={sample}, not both")
        if isinstance(sample, Episodes):
            self.episodes = sample.n
        elif sample is not None:
            self.n = sample.n
        if self.episodes is None:
            return
        if self.n is not None or self.size != 1:
            given = f"n={self.n}" if self.n is not None else f"size={self.size}"
            raise TypeError(f"whole episodes have lengths of their own: leave out {given}")
        self.limit = WholeEpisodes(self.keys, self.episodes, self.max_lag, self.object_key)

    def check(self, event: Event, now: float) -> Firing | None:
        """O(1) in the number of actors, but for the ``n`` claims of a firing."""
        if self.limit is not None:
            return self.limit.check(event)
        match event:
            case Arrived():
                self._supply(event.actor).arrived(event, self.object_key)
                self._mark(event.actor)
            case Resumed():  # what came before was handed over then
                self._supplies[event.actor] = Supply(self.keys, event.rows)
            case Rewound():
                self._supply(event.actor).rewind(event.rows)
                self.window.void(event.actor)
                if self._supply(event.actor).left < self.size:
                    self._ready.pop(event.actor, None)
            case Published(key=self.object_key):
                self._version, self._ahead = event.version, event.ahead
            case Joined() | Left():
                self._members.announced(event)
                self._settle()
        needed = len(self._members) if self.n is None else self.n
        if needed == 0 or len(self._ready) < needed:
            return None
        # The actors that were ready first or, if others would then be late, have the oldest rows.
        chosen, when_consumed = tuple(islice(self._ready, needed)), self._version + self._ahead
        paced = self.window.n and not any(map(self._is_stale, chosen))
        if paced and self.window.waits(chosen, when_consumed):
            oldest = heapq.nsmallest(needed, self._ready, lambda a: self._supply(a).oldest_version)
            if self.window.waits(oldest, when_consumed, self._ready):
                return None  # others would be too late even so: then it is better to wait
            chosen = tuple(oldest)
        return self._fire(chosen)

    def words(self) -> str:
        """Rows, keys, actors and their lag."""
        who = "all actors" if self.n is None else plural(self.n, "actor")
        bound = "" if self.max_lag is None else f", at most {plural(self.max_lag, 'version')} old"
        if self.episodes is not None:
            return f"{plural(self.episodes, 'whole episode')} in {short(self.keys)}{bound}"
        return f"{self.size} rows of {short(self.keys)} from {who}{bound}"

    def faults(self, plan: Plan) -> Iterator[str]:
        """Keys that are not there, and numbers that are none."""
        yield from unknown_data(self.keys, plan)
        yield from unknown_object(self.object_key, plan)
        if self.object_key != MODEL_PARAM and any(o.name == self.object_key for o in plan.objects):
            yield f"object_key must be {MODEL_PARAM!r}: lag counts versions of the weights"
        yield from counts(1, n=self.n, size=self.size, episodes=self.episodes)
        yield from counts(0, max_lag=self.max_lag)
        if self.limit is not None:
            yield from self.limit.faults(plan)

    def misfit(self, target: str) -> str:
        """Actors and the evaluator take no rows."""
        return WITHOUT_ROWS.get(parsed(target).role, "")

    def complete(self, target: str, plan: Plan, table: Mapping[str, Trigger]) -> None:
        """Whose versions count; and a window, if updates take rounds of only some actors."""
        self.object_key = plan.weights_of(parsed(target).role, self.object_key)
        if self.limit is not None:
            self.limit.complete(target, self.object_key, plan)
        if self.n is None or self.max_lag is None or paced(plan, table) is not self:
            return
        if is_of_some(plan, self.demand):
            self.window = Window(self.n, self.max_lag)

    def bound(self, max_lag: int, lead: int) -> None:
        """For its rows, the rounds of its window, and whole episodes."""
        if self.max_lag is not None:
            self.max_lag = self.window.max_lag = max_lag
            self.window.lead = lead
            if self.limit is not None:
                self.limit.max_lag, self.limit.lead = max_lag, lead

    @property
    def demand(self) -> Demand:
        """What each firing claims."""
        return Demand(self.keys, self.n, self.size, self.max_lag, self.episodes or 0)

    def keys_read(self) -> tuple[str, ...]:
        """The keys it claims."""
        return self.keys

    def taken(self, actor: int) -> int:
        """The row up to which an actor's rows were claimed."""
        if self.limit is not None:
            return self.limit.taken(actor)
        return self._supplies[actor].taken if actor in self._supplies else 0

    def _settle(self) -> None:
        """Between two batches: let actors whose turn has come join and leave, each in order."""
        for change in self._members.settled(self._is_time):
            if isinstance(change, Joined):
                self._members.add(change.actor)
                self._mark(change.actor)
            elif self.n is None:
                self._members.discard(change.actor)
                self._ready.pop(change.actor, None)

    def _is_time(self, change: Joined | Left) -> bool:
        if isinstance(change, Left):  # it has no whole round left to hand over
            return self._supply(change.actor).taken + self.size > change.rows
        # Its first round goes with that of its peer, once all before these are handed over.
        alone = self.n is not None or change.peer not in self._members
        return alone or self._supply(change.peer).taken >= change.rows

    def _supply(self, actor: int) -> Supply:
        if actor not in self._supplies:
            self._supplies[actor] = Supply(self.keys)
        return self._supplies[actor]

    def _mark(self, actor: int) -> None:
        if actor in self._members and self._supply(actor).left >= self.size:
            self._ready.setdefault(actor)

    # -- firing --------------------------------------------------------------------------------

    def _fire(self, chosen: tuple[int, ...]) -> Firing:
        stale = [actor for actor in chosen if self._is_stale(actor)]
        # In actor order, so that the same rows make the same batch in whatever order they came.
        claims = []
        for actor in sorted(stale or chosen):
            claims.append(Claim(actor, *self._supply(actor).take(self.size)))
            # One that was served goes to the end of the queue, so that none starves the others.
            self._ready.pop(actor)
            self._mark(actor)
        if self.window.n:
            for actor in stale or chosen:
                self.window.used(actor)
        self._settle()
        if stale:  # only these are given up; the others wait for company that is fresh
            return Firing(dropped=tuple(claims), keys=self.keys, version=self._version)
        self._ahead += 1
        self.window.ahead = self._ahead
        return Firing(claims=tuple(claims), keys=self.keys, version=self._version)

    def _is_stale(self, actor: int) -> bool:
        when_consumed = self._version + self._ahead - self._supply(actor).oldest_version
        return self.max_lag is not None and when_consumed > self.max_lag
