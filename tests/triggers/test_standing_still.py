"""What the verifier lets pass goes on for good, and what it refuses does stand still, acted out."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from itertools import product

import pytest
from trigger_helpers import KEYS, arrived, fire, joined, new_plan, rows

from artos.runs.plan import Plan
from head.run.coordination.books import Rounds
from triggers import DataKeyTrigger, Firing, ObjectKeyTrigger
from triggers.events import Event, Published
from triggers.pacing import window
from triggers.table import Table
from triggers.verify.verifier import faults

STEPS, VERSIONS = 4, 40
Wiring = tuple[int | None, int, int | None, int]
"""``n``, ``size``, ``max_lag`` and ``every``."""
Deed = tuple[str, int]
Choose = Callable[[list[Deed]], Deed]


class Play:
    """Actors and a learner who do what a table's triggers ask, in the order that ``choose`` likes.

    The triggers and the books of granted rounds are those of a run. ``used`` has the actor and the
    lag of every row that was learned from, ``dropped`` counts rows that were not.
    """

    def __init__(self, plan: Plan, table: Table, choose: Choose) -> None:
        self._update, self._sample = table["learner.update"], table["actors.sample"]
        self._rounds = Rounds(dict.fromkeys(range(plan.actors), 0), plan.steps)
        self._asked: dict[int, deque[int]] = {actor: deque() for actor in range(plan.actors)}
        self._sampling: dict[int, int] = {}
        self._sampled_with: dict[tuple[int, int], int] = {}
        self._updates: deque[Firing] = deque()
        self._choose = choose
        self._window = window(plan, table)
        self.used: list[tuple[int, int]] = []
        self.dropped = 0
        self.version = -1
        for event in joined(plan.actors):
            self._feed(event)
        self._publish()

    def goes_on(self) -> bool:
        """Whether it comes to so many versions before nobody can do anything any more."""
        while self.version < VERSIONS:
            deeds = list(self._deeds())
            if not deeds:
                return False
            self._do(*self._choose(deeds))
        return True

    def _deeds(self) -> Iterator[Deed]:
        for actor, stops in self._asked.items():
            if stops:
                yield ("end" if actor in self._sampling else "begin"), actor
        if self._updates:
            yield "learn", -1

    def _do(self, what: str, actor: int) -> None:
        if what == "learn":
            for row in rows(self._updates.popleft().claims):
                self.used.append((row[0], self.version - self._sampled_with[row]))
            self._publish()
        elif what == "begin":
            self._sampling[actor] = self.version
        else:
            stop = self._asked[actor].popleft()
            start, version = self._rounds.wrote(actor, stop), self._sampling.pop(actor)
            for step in range(start, stop):
                self._sampled_with[actor, step] = version
            self._feed(arrived(actor, stop, version))

    def _publish(self) -> None:
        self.version += 1
        self._window.ahead = len(self._updates)
        self._feed(Published("model_param", self.version, len(self._updates)))

    def _feed(self, event: Event) -> None:
        for firing in fire(self._update, event):
            self.dropped += len(rows(firing.dropped))
            if firing.claims:
                self._updates.append(firing)
        for firing in fire(self._sample, event):
            self._rounds.at_once(firing.rounds)
            for _ in range(firing.rounds):
                self._grant()

    def _grant(self) -> None:
        for actor in self._window.in_turn(self._asked, self._rounds.granted_to):
            if self._window.admits(actor) and (stop := self._rounds.grant(actor)) is not None:
                self._window.granted(actor, self.version)
                self._asked[actor].append(stop)


def actors_first(deeds: list[Deed]) -> Deed:
    return deeds[0]


def learner_first(deeds: list[Deed]) -> Deed:
    return deeds[-1]


def by_chance(seed: int) -> Choose:
    """Some actors are quick and some are slow."""
    luck = random.Random(seed)
    speeds = [luck.choice((1, 1, 20)) for _ in range(9)]
    return lambda deeds: luck.choices(deeds, [speeds[actor] for _, actor in deeds])[0]


def table_of(n: int | None, size: int, max_lag: int | None, every: int) -> Table:
    return {
        "learner.update": DataKeyTrigger(KEYS, n=n, size=size, max_lag=max_lag),
        "actors.sample": ObjectKeyTrigger("model_param", every=every),
    }


def goes_on(actors: int, wiring: Wiring, order: Choose) -> bool:
    table = table_of(*wiring)
    return Play(new_plan(table, actors=actors, steps=STEPS), table, order).goes_on()


def is_refused(actors: int, wiring: Wiring) -> bool:
    table = table_of(*wiring)
    return bool(faults(new_plan(table, actors=actors, steps=STEPS), table))


def wirings(actors: int) -> Iterator[Wiring]:
    takers, sizes = (None, *range(1, actors + 1)), (STEPS // 2, STEPS, 2 * STEPS, 3 * STEPS)
    return product(takers, sizes, (None, *range(7)), (1, 2))


@pytest.mark.parametrize("actors", [1, 2, 3, 4])
def test_what_passes_goes_on_whoever_is_quick(actors: int) -> None:
    for wiring in wirings(actors):
        if not is_refused(actors, wiring):
            for order in (actors_first, learner_first, *map(by_chance, range(4))):
                assert goes_on(actors, wiring, order), (wiring, order)


@pytest.mark.parametrize("actors", [1, 2, 3, 4])
def test_what_is_refused_stands_still_if_actors_are_quick(actors: int) -> None:
    for wiring in wirings(actors):
        if is_refused(actors, wiring) and not takes_bad_luck(actors, *wiring):
            assert not goes_on(actors, wiring, actors_first), wiring


def takes_bad_luck(actors: int, n: int | None, size: int, max_lag: int | None, every: int) -> bool:
    """Whether also the order within a round has to be bad: refused all the same."""
    several = size // STEPS
    one_older = several > 1 and max_lag == (2 * several - 1) * every - 1
    left_alone = every > 1 and n is not None and actors % n > 0
    return one_older or left_alone
