"""Episodes on their way through a trigger: n at a time, each once, and who waits meanwhile."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from artos.protocol.invocations import Claim
from artos.specs.keys import AGES_KEY, ENDS
from triggers.events import Ended, Event, Firing, Learned, Published, Resumed, Rewound
from triggers.targets import parsed

if TYPE_CHECKING:
    from artos.runs.plan import Plan

_WRITE = "let the actor write it, and data_keys not leave it out"


class WholeEpisodes:
    """Hands over ``n`` whole episodes at a time, in the order in which they came.

    What has no end is given up. So is, with ``max_lag``, an episode whose first row would be more
    than that many versions old when it is used.

    As the limit of a ``RoundTrigger`` it has actors sample until there are enough episodes, and
    wait while these are learned from, or go on until there are enough for ``max_lag`` more updates.
    """

    def __init__(self, keys: tuple[str, ...], n: int, max_lag: int | None, object_key: str) -> None:
        self._keys, self._n, self._object_key = keys, n, object_key
        self.max_lag = self.lead = max_lag  # the latter as it holds for what is sampled from now on
        self.target = ""
        """That of its trigger, of which it is told when the learner is done."""
        self.granted, self.envs = 0, 1  # as of every limit; here it is not rows that count
        self._policy = ""
        self._waiting: deque[Ended] = deque()
        self._whole = self._under_way = 0
        self._version = self._ahead = 0
        self._taken: Counter[int] = Counter()

    def check(self, event: Event) -> Firing | None:
        """Enough of them, or some that are given up; O(1) apart from the claims of a firing."""
        match event:
            case Ended(policy=self._policy):
                self._waiting.append(event)
                self._whole += event.whole
            case Resumed():
                self._taken[event.actor] = event.rows
            case Rewound():
                actor, rows = event.actor, event.rows
                self._leave([e for e in self._waiting if e.actor == actor and e.stop > rows])
            case Published(key=self._object_key):
                self._version, self._ahead = event.version, event.ahead
            case Learned(trigger=self.target):
                self._under_way -= 1
        # One without an end is given up once those before it are gone, whose rows are older.
        if self._waiting and not self._waiting[0].whole:
            cut = self._claims([self._waiting[0]])
            return Firing(dropped=cut, cut=True, version=self._version)
        if self._whole < self._n:
            return None
        first = [*islice((each for each in self._waiting if each.whole), self._n)]
        if self.max_lag is not None:
            oldest = self._version + self._ahead - self.max_lag  # when these would be used
            key = self._object_key
            if stale := [e for e in first if e.versions.get(key, e.version) < oldest]:
                return Firing(dropped=self._claims(stale), version=self._version)
        self._ahead += 1
        self._under_way += 1
        return Firing(claims=self._claims(first), keys=self._keys, version=self._version)

    def complete(self, target: str, object_key: str, plan: Plan) -> None:
        """It is the limit of this target, and lag counts versions of these weights."""
        self.target, self._object_key = target, object_key
        self._policy = plan.policy_of(parsed(target).role)

    def _claims(self, gone: Sequence[Ended]) -> tuple[Claim, ...]:
        self._leave(gone)
        for each in gone:
            self._taken[each.actor] = max(self._taken[each.actor], each.stop)
        # In actor order, so that the same rows make the same batch in whatever order they came.
        rows = sorted((each.actor, each.env, each.start, each.stop) for each in gone)
        return tuple(Claim(actor, start, stop, env) for actor, env, start, stop in rows)

    def _leave(self, gone: Iterable[Ended]) -> None:
        """These wait no more: most of them are among the first."""
        for each in gone:
            self._waiting.remove(each)
            self._whole -= each.whole

    def may_insert(self, count: int) -> bool:
        """Whether actors may sample on: episodes are still wanted."""
        wanted = self._n * (1 + (self.lead or 0))
        return self._whole + self._n * self._under_way < wanted

    def taken(self, actor: int) -> int:
        """The row up to which an actor's rows were handed over or given up."""
        return self._taken[actor]

    def faults(self, plan: Plan) -> Iterator[str]:
        """What keeps actors from handing over whole episodes."""
        keys = plan.rows_of(self._policy).data_keys
        known, what = {key.name for key in keys}, f"Episodes({self._n})"
        if AGES_KEY not in known:
            yield (
                f"{what} needs the data key {AGES_KEY!r} (uint8): 0 in an episode's first row, 1 "
                f"more in each after it, up to 255; {_WRITE}"
            )
        if known.isdisjoint(ENDS):
            yield (
                f"{what} needs the data key {ENDS[0]!r} or {ENDS[1]!r} (bool): true in an "
                f"episode's last row; {_WRITE}"
            )
        if plan.on_full != "wait":
            yield (
                f'{what} keeps the rows of an episode until it is over: set on_full="wait", not '
                f"{plan.on_full!r}"
            )
        if not plan.capacity:
            yield (
                f"{what} cannot tell how long an episode may be: set capacity, the rows kept per "
                f"actor, to more than that and a round (steps={plan.steps}), "
                f"e.g. capacity={max(1024, 8 * plan.steps)}"
            )
