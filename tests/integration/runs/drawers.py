"""Three agents of two policies that draw, or are handed episodes or rounds, and check all rows."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from guessers import AGENTS, LENGTHS, OF, Checked

from artos import (
    DQN,
    AgentsActor,
    DrawnBatch,
    EpisodeBatch,
    Episodes,
    Invoke,
    Learner,
    LearnerContext,
    Policy,
    Rows,
    TorchLearner,
    Uniform,
    Workload,
    discounted,
)
from artos.policies.values import Epsilon, QNetwork
from triggers import DataKeyTrigger, ReplayTrigger, RoundTrigger, Trigger

RATIO, AFTER, BATCH, EPISODES = 8.0, 200, 32, 12
LAST = np.vectorize(LENGTHS.get)


class Drawing(DQN):
    """An agent observes (cue, step, number of the agent, ...) and is paid for repeating the cue."""

    def setup(self, context: LearnerContext) -> None:
        super().setup(context)
        self.own = OF[context.plan.learner]

    def update(self, batch: DrawnBatch, call: Invoke) -> dict[str, float]:
        seen, after = batch["observations"], batch["next.observations"]
        number, at = seen[:, 2], seen[:, 1]
        assert np.isin(number, self.own).all(), "rows of other agents"
        assert seen.shape[1] == (4 if self.own == (1,) else 3), "each has a space of its own"
        assert (at < LAST(number)).all(), "what is no transition was drawn"
        assert (after[:, 2] == number).all()
        np.testing.assert_array_equal(after[:, 1], at + 1, "another row follows")
        right = batch["actions"] == seen[:, 0]
        np.testing.assert_array_equal(batch["n_step.returns"], right)
        np.testing.assert_array_equal(batch["n_step.discounts"] == 0, at + 1 == LAST(number))
        assert batch["policy_version"].max() <= self.updates, "rows are of versions that it made"
        shown = float(batch.of("demos").sum()) if batch.numbers else 0.0
        return super().update(batch, call) | {"right": float(right.mean()), "shown": shown}


class Reinforce(TorchLearner):
    """Learns from whole episodes, each of which it has once."""

    calls = ("evaluate",)
    reads = ("observations", "actions", "rewards")

    def setup(self, context: LearnerContext) -> None:
        super().setup(context)
        self.own, self.had = OF[context.plan.learner], set[tuple[int, int, int]]()

    def update(self, batch: EpisodeBatch, call: Invoke) -> dict[str, float]:
        seen = batch["observations"]
        first = np.cumsum(batch.lengths) - batch.lengths
        number = seen[first, 2]
        assert np.isin(number, self.own).all(), "rows of other agents"
        np.testing.assert_array_equal(batch.lengths, LAST(number), "no whole episode")
        at = np.arange(len(seen)) - np.repeat(first, batch.lengths)
        np.testing.assert_array_equal(seen[:, 1], at)
        np.testing.assert_array_equal(seen[:, 2], np.repeat(number, batch.lengths))
        np.testing.assert_array_equal(batch["rewards"], batch["actions"] == seen[:, 0])
        these = {(claim.actor, claim.env, claim.start) for claim in batch.claims}
        assert len(these) == EPISODES
        assert not these & self.had, "an episode is handed over twice"
        self.had |= these
        returns = batch.flat(discounted(batch.padded("rewards"), 0.0))
        weight = self.tensor((returns - returns.mean()) / (returns.std() + 1e-8))
        log_probs, _, _ = self.module.evaluate(
            self.observations(batch), self.tensor(batch["actions"])
        )
        self.step(-(weight * log_probs).mean())
        return {"right": float(batch["rewards"].mean())}


def trigger_of(way: str, keys: tuple[str, ...], demos: int = 0) -> Trigger:
    """How a policy's learner is handed its rows; ``demos`` of a batch are of a data set."""
    if way == "draws":
        source = {"demos": demos} if demos else ""
        pattern = Uniform(BATCH, gamma=0.5)
        return ReplayTrigger(keys, pattern, ratio=RATIO, after=AFTER, source=source)
    if way == "episodes":
        return DataKeyTrigger(keys, sample=Episodes(EPISODES))
    return DataKeyTrigger(keys, size=8)


def learner_of(way: str) -> Learner:
    """Who checks the rows that it is handed in this way."""
    if way == "draws":
        return Drawing(lr=3e-3, sync=1)
    return Reinforce(lr=1e-2) if way == "episodes" else Checked(lr=5e-3, minibatches=2)


def workload(
    middle: str = "draws", others: str = "draws", total_steps: int = 6_000, capacity: int = 1_024,
    actors: int = 2, demos: str = "", **given: Any,
) -> Workload:  # fmt: skip
    """Each policy's learner draws, or it is handed episodes or rounds.

    That of ``middle`` may have a quarter of its batches from the data set ``demos``.
    """
    shown = {"middle": BATCH // 4} if demos else {}
    values = partial(QNetwork, hidden=(32,), epsilon=Epsilon(end=0.05, share=0.3))
    ways = {"middle": middle, "others": others}
    actor = AgentsActor(
        "pettingzoo:guessing(agents=3, uneven=True)", AGENTS,
        {name: values if ways[name] == "draws" else Policy(hidden=(32,)) for name in ways}, envs=6,
    )  # fmt: skip
    return Workload(
        name="drawers",
        actor=actor,
        learners={name: learner_of(ways[name]) for name in actor.policies},
        triggers={
            **{
                f"{n}.update": trigger_of(ways[n], actor.keys(n), shown.get(n, 0))
                for n in actor.policies
            },
            "actors.sample": RoundTrigger(ahead=1),
        },
        data={"demos": Rows(demos)} if demos else {},
        actors=actors, steps=8, capacity=capacity, total_steps=total_steps,
        on_full="overwrite" if {*ways.values()} == {"draws"} else "wait", **given,
    )  # fmt: skip
