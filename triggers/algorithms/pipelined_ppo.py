"""PPO that does part of an update before all of its rows are there (paper §4.4)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from artos.buffer.samplers.batch import Batch, BatchStore
from artos.learners.advantage_cache import AdvantageCache, GradientAccumulator
from artos.learners.context import LearnerContext
from artos.learners.torch_learner import few_for_replicas
from artos.losses.rounds import Floats
from artos.protocol.invocations import Claim, Invoke
from artos.runs.plan import Plan
from triggers.algorithms.ppo import PPO

_ACCUMULATE, _FIRST_PASS = "learner.accumulate", "learner.first_pass"


class PipelinedPPO(PPO):
    """PPO with methods that a trigger table may fire before ``update``.

    ``preprocess`` computes advantages, ``accumulate`` adds up the gradient of the full batch,
    ``first_pass`` steps on minibatches of the rows that came first. ``update`` then does the rest,
    which is everything after a crash, and where statistics count no rows yet.
    """

    non_publishing: ClassVar[tuple[str, ...]] = ("preprocess", "accumulate", "first_pass")

    def setup(self, context: LearnerContext) -> None:
        """Adopt the network; nothing is known yet of rows that will come."""
        super().setup(context)
        gamma, lam = self.settings.gamma, self.settings.lam
        self._advantages = AdvantageCache(context.blocks, gamma, lam, self._scaled)
        self._store = BatchStore()
        self._accumulator: GradientAccumulator | None = None
        self._passed: dict[Claim, Mapping[str, Tensor]] = {}
        self._learned: dict[int, int] = {}

    def go_on(self, taken: dict[str, Any]) -> None:
        """Also discount as this learner's settings say, which those of the snapshot need not."""
        super().go_on(taken)
        self._advantages.gamma, self._advantages.lam = self.settings.gamma, self.settings.lam

    def faults(self, plan: Plan) -> list[str]:
        """As of PPO, and minibatches or actors that do not fit what the table fires early."""
        found, minibatches = super().faults(plan), self.settings.minibatches
        least, most = plan.at_work.least, plan.at_work.most
        if _ACCUMULATE in plan.triggers and minibatches != 1:
            found.append(
                "learner.accumulate adds up one gradient of the full batch: set minibatches=1"
            )
        if _FIRST_PASS in plan.triggers and minibatches >= 1:
            if least != most:
                found.append(
                    "learner.first_pass makes each minibatch from some of the actors, which needs "
                    "a fixed number of actors: give actors as a number"
                )
            elif most % minibatches and minibatches % most:
                found.append(
                    f"{most} actors and {minibatches} minibatches: learner.first_pass needs one to "
                    "be a multiple of the other"
                )
        if _ACCUMULATE in plan.triggers:
            found += few_for_replicas(plan, 1, (1,))
        if self.settings.compile == "on" and _ACCUMULATE in plan.triggers:
            found.append(
                "compile=on: learner.accumulate, which adds up gradients, is not compiled: use "
                "another pipeline, or leave out compile"
            )
        return found

    # -- what triggers fire --------------------------------------------------------------------

    def preprocess(self, batch: Batch, call: Invoke) -> None:
        """Compute advantages of rows whose observations and actions may still be on their way.

        Where rewards are scaled by what was learned from before, rows wait until all of that was.
        """
        began = time.perf_counter()
        if not self._unmeasured() and (self._reward_scale is None or self._comes_next(batch)):
            self._advantages.add(batch)
        self._seconds = {"preprocess": time.perf_counter() - began}

    def accumulate(self, batch: Batch, call: Invoke) -> None:
        """Add the gradient of these rows to that of the full batch they were preprocessed in.

        The sum is the gradient that ``update`` would compute: advantages are normalised over the
        full batch. While some of its rewards are missing that is impossible, and nothing is done.
        """
        began = time.perf_counter()
        claims = self._advantages.beside(batch.claims[0])
        if set(batch.claims) <= set(claims):
            if self._accumulator is None or self._accumulator.claims != claims:
                self.network.discard()
                whole = Batch(self.context.blocks, claims, self._store)
                advantage = self.tensor(self._advantages.of(whole)[0])
                valid = self.tensor(whole.gather("valid")) if "valid" in whole.names else None
                mean, spread = self._scale(advantage, valid)
                count = len(whole) if valid is None else max(1, int(valid.sum()))
                self._accumulator = GradientAccumulator(claims, float(mean), float(spread), count)
            self._add(self._accumulator, batch.claims)
        self._seconds = {"learn": time.perf_counter() - began}

    def first_pass(self, batch: Batch, call: Invoke) -> None:
        """The first epoch over these rows, in minibatches of their own.

        Rows are left to ``update`` while older rows of their actor are, or may be, still to be
        learned from. So each version includes all steps on its own rows and none on later rows,
        and a crash neither loses nor repeats a step.
        """
        began = gathered = time.perf_counter()
        if self._comes_next(batch) and not self._unmeasured():
            self._anneal(call)
            data = self._prepare(batch)
            gathered = time.perf_counter()
            self._passed |= dict.fromkeys(batch.claims, self._first(batch, data))
        self._seconds = {"gather": gathered - began, "learn": time.perf_counter() - gathered}

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """The rest of an update on a full batch; then what was kept of its rows is forgotten."""
        metrics = super().update(batch, call)
        self._advantages.forget(batch.claims)
        self._learned |= {claim.actor: claim.stop for claim in batch.claims}
        self._passed = {
            c: m for c, m in self._passed.items() if c.stop > self._learned.get(c.actor, 0)
        }
        return metrics

    def _comes_next(self, batch: Batch) -> bool:
        """Whether no older rows of these actors are still to be learned from, as far as known."""
        return all(claim.start == self._learned.get(claim.actor, 0) for claim in batch.claims)

    # -- what ``update`` is made of ------------------------------------------------------------

    def _estimates(self, batch: Batch) -> tuple[Floats, Floats]:
        return self._advantages.of(batch)

    def _begun(self, batch: Batch, data: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Complete the first epoch, where some of it was done: its last metrics, else none."""
        accumulator, self._accumulator = self._accumulator, None
        beside = self._advantages.beside(batch.claims[0])
        ready = accumulator is not None and accumulator.claims == beside == batch.claims
        # An actor may be placed again just when one of several replicas looks.
        if self.replicas.all(ready) and accumulator:
            self._add(accumulator, accumulator.claims)
            self.network.apply()
            return self.replicas.total(accumulator.metrics)
        left = [claim for claim in batch.claims if claim not in self._passed]
        if not left:
            return self._passed[batch.claims[-1]]
        if len(left) == len(batch.claims):
            return {}
        rest = Batch(self.context.blocks, left, self._store)
        return self._first(rest, self._prepare(rest))

    def _first(self, batch: Batch, data: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """A first pass over a part of the full batch, in as many minibatches as it makes of them.

        Returns the metrics of the last one.
        """
        self._accumulator = None
        plan = self.context.plan
        full = plan.actors * plan.envs * plan.steps
        count = max(1, round(self.settings.minibatches * len(batch) / full))
        self.network.observe = self._noise.add if self._noise else None
        return self._pass(batch, data, count)

    # -- the full batch, piece by piece --------------------------------------------------------

    def _add(self, accumulator: GradientAccumulator, claims: tuple[Claim, ...]) -> None:
        for claim in (claim for claim in claims if claim not in accumulator.added):
            piece = Batch(self.context.blocks, [claim], self._store)
            rows = self._prepare(piece)
            rows["advantages"] = (rows["advantages"] - accumulator.mean) / accumulator.spread
            every = np.arange(len(piece))
            part = self._part(piece, every, rows.get("valid"))
            self.replicas.share = 1.0  # of a sum
            few = rows if part is every else self._at(rows, part)
            seen = self._seen(piece, few, part)
            loss, metrics = self.compiler(self._loss, *seen, accumulator.count)
            self.network.backward(loss)
            accumulator.note(claim, metrics)
