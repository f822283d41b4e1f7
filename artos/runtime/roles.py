"""The two roles a member can play: how an invocation becomes rows, or a new version."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from artos.actors.context import ActorContext
from artos.buffer.actor_block import ActorBlock
from artos.buffer.model_block import ObjectRegion
from artos.buffer.samplers.batch import Batch, BatchStore
from artos.errors import NotFinite
from artos.lag import Drawn
from artos.protocol.invocations import Done, Invoke

_MOST_EPISODES = 1000
"""Episodes a round reports, the newest: more of them would not fit a mailbox."""


class ActorRole:
    """Runs an actor: binds the newest weights, samples a round, commits it as one.

    It waits for room first, so that rows are of the weights that are newest when they are sampled.
    """

    def __init__(self, actor: Any, context: ActorContext, model: ObjectRegion) -> None:
        self._actor, self._block, self._model = actor, context.block, model
        self._reader = context.actor
        self._private: dict[str, NDArray[Any]] = {}
        self._bound = False
        # The learner, which may hold the rows, is given all its tries meanwhile.
        self._patience = 5 * context.plan.deadline
        actor.setup(context)

    def step(self) -> int:
        """The step being sampled, where the actor says so, else rows committed so far."""
        return max(self._block.written, int(getattr(self._actor, "step_number", 0)))

    def close(self) -> None:
        """Close the environments."""
        if hasattr(self._actor, "close"):
            self._actor.close()

    def run(self, call: Invoke) -> Done:
        """Bind if asked to, then sample up to row ``call.stop`` if the call is about rows."""
        start = self._block.written
        rows = max(0, call.stop - start)
        times: dict[str, float] = {}
        seconds, began = 0.0, time.perf_counter()
        if rows:
            self._block.allocate(rows, self._patience)
            began = _until_now(times, "wait_for_room", began)
        if call.bind or not self._bound:
            self._bind()
            began = _until_now(times, "bind", began)
        if rows:
            own = getattr(self._actor, call.method)(start, rows)
            self._block.commit(call.stop)
            seconds = time.perf_counter() - began
            times |= whole(own, seconds, "sample")
        returns, lengths = self._actor.episodes()
        newest = slice(-_MOST_EPISODES, None)
        return Done(
            call.firing, self._actor.version, {}, times, tuple(returns[newest]),
            tuple(lengths[newest]), seconds,
        )  # fmt: skip

    def _bind(self) -> None:
        slot = self._model.bind(self._reader, self._private)
        self._actor.bind(slot.arrays["params"], slot.version)
        self._bound = True


def whole(told: Mapping[str, float], seconds: float, rest: str) -> dict[str, float]:
    """What user code tells of these ``seconds``, and as ``rest`` what it leaves out."""
    left = max(0.0, seconds - sum(told.values()))
    return {**told, rest: told.get(rest, 0.0) + left}


def _until_now(times: dict[str, float], kind: str, began: float) -> float:
    """Book the seconds since ``began``; returns the time it is now."""
    now = time.perf_counter()
    times[kind] = now - began
    return now


class LearnerRole:
    """Runs a learner: hands it the claimed rows, publishes what it changed.

    Weights and optimiser state live in the model block: a learner that starts where a version is
    already published goes on from that one, after a crash as after a resume.
    """

    def __init__(self, learner: Any, model: ObjectRegion, blocks: Mapping[int, ActorBlock]) -> None:
        self._learner, self._model, self._blocks = learner, model, blocks
        self._store, self._drawn = BatchStore(), Drawn()
        for block in blocks.values():
            block.drawn = self._drawn
        self._silent = frozenset(getattr(learner, "silent", ()))
        if model.version < 0:
            self._publish(0, 0)
        else:
            for name, array in learner.live().items():
                np.copyto(array, model.newest.arrays[name])

    def step(self) -> int:
        """The version published last."""
        return self._model.version

    def close(self) -> None:
        """Nothing to let go of: what matters is in the model block."""

    def run(self, call: Invoke) -> Done:
        """Run the learner's method on the claimed rows, if any; publish if it stepped.

        What a silent method stepped is published with the next that is not.

        Raises:
            NotFinite: a metric or a weight is NaN or infinite; nothing was published.
        """
        began = time.perf_counter()
        self._drawn.begin(self._model.version)
        batch = Batch(self._blocks, call.claims, self._store) if call.claims else None
        metrics = getattr(self._learner, call.method)(batch, call) or {}
        self._check(metrics)
        drawn = self._drawn.take()
        unread = bool(drawn) and batch is not None and not batch.was_read
        ended = time.perf_counter()
        times = whole(self._learner.seconds(), ended - began, "learn")
        if self._learner.fresh and call.method not in self._silent:
            self._learner.fresh = False
            self._publish(self._model.version + 1, call.firing)
            ended = _until_now(times, "publish", ended)
        seconds = ended - began
        return Done(
            call.firing, self._model.version, metrics, times, seconds=seconds, drawn=drawn,
            unread=unread,
        )  # fmt: skip

    def _check(self, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise NotFinite(name, value, self._model.version)
        total = float(self._learner.live()["params"].sum())
        if not math.isfinite(total):
            raise NotFinite("a weight", total, self._model.version)

    def _publish(self, version: int, firing: int) -> None:
        slot = self._model.allocate()
        for name, array in self._learner.live().items():
            np.copyto(slot.arrays[name], array)
        self._model.commit(slot, version, firing)
