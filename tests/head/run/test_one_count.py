"""What triggers book is what the ledger grants, wherever a writer stops between its stores."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.buffer.samplers.patterns import Uniform
from artos.buffer.shm_folder import ShmFolder
from artos.specs.keys import VERSION_KEY, DataKey
from head.run.coordination.books import Rounds
from head.run.coordination.rows import Arrivals, Commits
from triggers.events import Event, Firing, Joined, Learned, Left, Published, Recheck, Ungranted
from triggers.replay import RateLimit, ReplayTrigger, RoundTrigger

STEPS, ENVS, ACTORS, BATCH, TARGET = 4, 2, 2, 16, "learner.update"
KEYS = ("observations", "actions", "rewards")


@dataclass
class World:
    """Blocks, their writers, the books and the triggers of a replay; no process and no clock."""

    blocks: dict[int, ActorBlock]
    source: Commits | Arrivals
    replay: ReplayTrigger
    rounds: RoundTrigger
    ledger: Rounds = field(default_factory=lambda: Rounds(dict.fromkeys(range(ACTORS), 0), STEPS))
    to_sample: dict[int, deque[int]] = field(default_factory=dict)
    updates: deque[Firing] = field(default_factory=deque)
    events: deque[Event] = field(default_factory=deque)
    half_done: dict[int, Iterator[None]] = field(default_factory=dict)
    refused: int = 0

    @property
    def limit(self) -> RateLimit:
        return self.replay.limit

    def feed(self, *events: Event) -> None:
        """As the engine does: each trigger sees every event, then rechecks."""
        self.events.extend(events)
        while self.events:
            event: Event = self.events.popleft()
            self._check(self.replay, event, self.updates.append)
            self._check(self.rounds, event, self._grant)

    def _check(self, trigger: Any, event: Event, fire: Any) -> None:
        while (firing := trigger.check(event, 0.0)) is not None:
            fire(firing)
            event = Recheck()

    def _grant(self, firing: Firing) -> None:
        (actor,) = firing.actors or ()
        self.ledger.at_once(max(firing.rounds, firing.ahead))
        for _ in range(firing.rounds):
            stop = self.ledger.grant(actor)
            if stop is None:
                self.refused += 1
                self.events.append(Ungranted("actors.sample", actor))
            else:
                self.to_sample[actor].append(stop)

    def look(self, actor: int) -> None:
        """What the coordinator does when a counter has changed."""
        rows, events = self.source.news(actor)
        self.ledger.wrote(actor, rows)
        self.feed(*events)
        self.agree()

    def agree(self) -> None:
        """Both sides count the same."""
        assert self.refused == 0
        assert self.limit.granted == self.ledger.granted * ENVS
        assert self.limit.inserted <= self.ledger.written * ENVS

    def commit(self, actor: int) -> Iterator[None]:
        """The stores of a commit, one at a time, in the order of ``ActorBlock.commit``."""
        block, stop = self.blocks[actor], self.to_sample[actor].popleft()
        block.allocate(stop - block.written)
        block.arrays[VERSION_KEY][:] = 0
        for name in self._order():
            block.headers[name].set_written(stop)
            yield

    def _order(self) -> tuple[str, ...]:
        if isinstance(self.source, Arrivals):  # keys travel on their own, versions first
            return (VERSION_KEY, *reversed(KEYS))
        return tuple(self.blocks[0].headers)

    def write(self, actor: int, stores: int) -> None:
        """The writer makes so many stores and stops, maybe in the middle of a commit."""
        for _ in range(stores):
            if actor not in self.half_done:
                if not self.to_sample[actor]:
                    return
                self.half_done[actor] = self.commit(actor)
            if next(self.half_done[actor], self) is self:
                del self.half_done[actor]

    def learn(self) -> None:
        if self.updates:
            self.updates.popleft()
            self.feed(Learned(TARGET))

    def settle(self) -> None:
        """Nobody stops any more; somebody always has something to do until there are many rows."""
        while self.ledger.written < 60 * STEPS:
            before = (self.ledger.written, self.limit.sampled, len(self.updates))
            for actor in self.blocks:
                self.write(actor, 4 * len(KEYS))
                self.look(actor)
            self.learn()
            after = (self.ledger.written, self.limit.sampled, len(self.updates))
            assert before != after, "the run stands still"


@contextmanager
def world(arrivals: bool, after: int, ratio: float) -> Iterator[World]:
    folder = ShmFolder.create("test")
    keys = tuple(DataKey(name, (), "float32") for name in KEYS)
    try:
        blocks = {
            actor: ActorBlock.create(
                folder.path / str(actor), BlockSpec(actor, keys, 1024, ENVS, (), "overwrite")
            )
            for actor in range(ACTORS)
        }
        for block in blocks.values():
            block.begin_incarnation()
        replay = ReplayTrigger(KEYS, Uniform(BATCH), ratio=ratio, after=after)
        replay.limit.slack = ratio * STEPS * ENVS + BATCH
        replay.limit.envs, replay.target = ENVS, TARGET
        rounds = RoundTrigger()
        rounds.steps, rounds.limits = STEPS, (replay.limit,)
        source: Commits | Arrivals = Commits(blocks, shipped=False)
        if arrivals:
            rounds.keys, source = KEYS, Arrivals(blocks)
            for actor, block in blocks.items():
                source.rewind(actor, block.incarnation, 0)
        made = World(blocks, source, replay, rounds)
        made.to_sample = {actor: deque() for actor in blocks}
        made.feed(Published("model_param", 0), *map(Joined, blocks))
        yield made
    finally:
        folder.remove()


moves = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, ACTORS - 1), st.integers(1, 9)),
        st.tuples(st.just("look"), st.integers(0, ACTORS - 1), st.just(0)),
        st.tuples(st.just("learn"), st.just(0), st.just(0)),
        st.tuples(st.just("leave"), st.integers(1, ACTORS - 1), st.just(0)),
        st.tuples(st.just("join"), st.integers(1, ACTORS - 1), st.just(0)),
    ),
    max_size=80,
)


@settings(max_examples=150)
@given(
    arrivals=st.booleans(), after=st.sampled_from([0, 24, 100]),
    ratio=st.sampled_from([0.5, 2.0, 8.0]), script=moves,
)  # fmt: skip
@example(  # two rounds of an actor that were granted one after the other
    arrivals=False, after=0, ratio=8.0,
    script=[("write", 0, 4), ("look", 0, 0), *[("learn", 0, 0)] * 5],
)  # fmt: skip
def test_in_every_interleaving(
    arrivals: bool, after: int, ratio: float, script: list[tuple[str, int, int]]
) -> None:
    with world(arrivals, after, ratio) as made:
        present = set(made.blocks)
        for move, actor, count in script:
            match move:
                case "write":
                    made.write(actor, count)
                case "look":
                    made.look(actor)
                case "learn":
                    made.learn()
                case "leave" if actor in present:
                    present.discard(actor)
                    made.feed(Left(actor, made.ledger.granted_to(actor)))
                case "join" if actor not in present:
                    present.add(actor)
                    made.feed(Joined(actor, 0, made.ledger.granted_to(0)))
            made.agree()
        made.settle()
        assert made.limit.inserted == made.ledger.written * ENVS


@pytest.mark.parametrize("store", range(1, len(KEYS) + 1))
def test_seen_in_the_midst_of_a_commit_no_round_is_lost(store: int) -> None:
    """The warm-up of a replay, whose last rows never came where a round had been lost."""
    with world(arrivals=False, after=30 * STEPS * ENVS, ratio=2.0) as made:
        made.write(0, 4 * len(KEYS) + store)
        made.look(0)
        made.settle()


def test_a_round_that_is_not_granted_is_asked_for_again() -> None:
    with world(arrivals=False, after=10_000, ratio=2.0) as made:
        granted = made.limit.granted
        made.feed(Ungranted("actors.sample", 0))
        assert made.limit.granted == granted - STEPS * ENVS
        made.feed(Learned("another"))
        assert made.refused == 1, "the ledger has granted it"
        assert made.limit.granted == granted - STEPS * ENVS, "given back again"
