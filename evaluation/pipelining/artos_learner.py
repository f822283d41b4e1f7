"""A stand-in for a learner, driven by real triggers: arrived rows fire, and firings are done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from artos.buffer.samplers.batch import Batch, BatchStore
from artos.clock import SystemClock
from artos.errors import DeadlineExceeded
from artos.protocol.invocations import Claim
from artos.runs.run_memory import RunMemory
from artos.specs.keys import MODEL_PARAM
from evaluation.pipelining.rounds import OBSERVATIONS
from evaluation.pipelining.shared import SECONDS
from evaluation.pipelining.stand_in_learner import PIECE, Learning
from head.run.coordination.books import Claims
from head.run.coordination.rows import Arrivals
from triggers.engine import DirectPasser, Engine, TriggerWrapper
from triggers.events import Firing, Joined, Published
from triggers.table import Table
from triggers.targets import parsed

UPDATE = "learner.update"
_REWARDS = ("rewards", "values", "bootstraps", "terminations", "truncations")
_TERM = 1


class Learner:
    """Carries out the firings of the learner's triggers in order, as the learner of a run would.

    ``learner.preprocess`` computes advantages, ``learner.first_pass`` works on the rows of its
    claims, and ``learner.update`` on the rows that are left, which ends the update. ``released`` is
    called whenever rows were released. Copying rows out of the blocks counts as waiting, not as
    work: the other contestants copy theirs before they begin to learn.
    """

    def __init__(
        self, node: RunMemory, table: Table, learning: Learning, released: Callable[[], None]
    ) -> None:
        self._node, self._learning, self._released = node, learning, released
        self._firings: deque[Firing] = deque()
        passer = DirectPasser(self._firings.append)
        learner = {t: each for t, each in table.items() if parsed(t).learns}
        self._engine = Engine(
            [TriggerWrapper(*item, passer) for item in learner.items()], SystemClock()
        )
        self._arrivals, self._claims = Arrivals(node.blocks), Claims()
        self._store, self._rows = BatchStore(), dict.fromkeys(node.blocks, 0)
        self._preprocessed: set[Claim] = set()
        self._learned: set[Claim] = set()
        self._goal = self._version = 0
        self._arrived: Callable[[], None] = lambda: None
        for actor in node.blocks:
            self._arrivals.rewind(actor, _TERM, 0)
            self._engine.feed(Joined(actor))

    def update(self, arrived: Callable[[], None]) -> None:
        """Run one update; ``arrived`` is called once all rows of a round are here.

        Rows of the n-th update are sampled with weights of version n.

        Raises:
            DeadlineExceeded: rows did not arrive in time.
        """
        self._engine.feed(Published(MODEL_PARAM, self._version))
        self._version += 1
        self._goal = min(self._rows.values()) + self._node.plan.steps
        self._arrived = arrived
        while not self._is_done():
            if not self._node.board.doorbell.wait(SECONDS):
                raise DeadlineExceeded(f"rows {self._goal} of all actors", SECONDS)
            self._look()

    def _is_done(self) -> bool:
        """Carry out pending firings; whether one of them ended the update."""
        while self._firings:
            firing = self._firings.popleft()
            self._do(firing)
            if firing.trigger == UPDATE:
                return True
        return False

    def _look(self) -> None:
        """Feed newly arrived rows to the triggers."""
        board = self._node.board
        actors = [m.rank for m in board.changed() if board.members.role(m).samples]
        for actor in actors:
            self._rows[actor], events = self._arrivals.news(actor)
            for event in events:
                self._engine.feed(event)
        if actors and self._goal and min(self._rows.values()) >= self._goal:
            self._goal = 0
            self._arrived()

    # -- firings of the learner's triggers -----------------------------------------------------

    def _do(self, firing: Firing) -> None:
        self._claims.claim(firing.trigger, firing.claims)
        does: Mapping[str, Callable[[tuple[Claim, ...]], None]] = {
            "learner.preprocess": self._preprocess,
            "learner.first_pass": self._learn,
            UPDATE: self._finish,
        }
        does[firing.trigger](firing.claims)
        for claim in firing.claims:
            claimed, acknowledged = self._claims.done(firing.trigger, claim)
            self._node.blocks[claim.actor].acknowledge(firing.trigger, claimed, acknowledged)
        self._released()

    def _preprocess(self, claims: tuple[Claim, ...]) -> None:
        batch = Batch(self._node.blocks, claims, self._store)
        small = {name: batch.gather(name)[..., 0] for name in _REWARDS}
        with self._learning.working():
            self._learning.preprocess(small)
        self._preprocessed.update(claims)

    def _learn(self, claims: tuple[Claim, ...]) -> None:
        if new := tuple(claim for claim in claims if claim not in self._preprocessed):
            self._preprocess(new)
        batch = Batch(self._node.blocks, claims, self._store)
        for rows in _pieces(batch):
            observations = batch.take(OBSERVATIONS, rows)
            with self._learning.working():
                self._learning.learn(observations)
            self._look()  # so that the arrival of the last rows is noticed in time
        self._learned.update(claims)

    def _finish(self, claims: tuple[Claim, ...]) -> None:
        if left := tuple(claim for claim in claims if claim not in self._learned):
            self._learn(left)
        self._learned.clear()
        self._preprocessed.clear()


def _pieces(batch: Batch) -> Iterator[NDArray[Any]]:
    for start in range(0, len(batch), PIECE):
        yield np.arange(start, min(start + PIECE, len(batch)))
