"""A judge pays the actors: one process answers all of them, many observations at a time."""

from collections.abc import Sequence

import numpy as np

from artos import (
    PPO,
    Actor,
    ActorContext,
    DataKey,
    Invoke,
    RolloutActor,
    Server,
    ServerContext,
    Workload,
)
from triggers import DataKeyTrigger, ObjectKeyTrigger, RequestTrigger

STEPS, ENVS = 128, 4


class Judge(Server):
    """Stands for a model too large to be in every actor: the pole of CartPole is to stand."""

    def asks(self, actor: Actor) -> Sequence[DataKey]:
        """What is to be judged: observations."""
        return (DataKey("seen", (4,)),)

    def answers(self, actor: Actor) -> Sequence[DataKey]:
        """A score for each of them."""
        return (DataKey("score"),)

    def rows(self, actor: Actor) -> int:
        """A request is a whole round of an actor."""
        return STEPS * ENVS

    def setup(self, context: ServerContext) -> None:
        """Load the model, once in the process of the judge."""
        self.weights = np.array([-0.1, 0, -4, 0], np.float32)

    def answer(self, asked: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Score B observations, whichever actors they are from."""
        return {"score": np.exp(np.abs(asked["seen"]) @ self.weights)}


class Judged(RolloutActor):
    """Asks the judge about each round that it has sampled."""

    def setup(self, context: ActorContext) -> None:
        """Find the judge's desk, and the block that rows are written to."""
        super().setup(context)
        self.block, (self.judge,) = context.block, context.desks["judge"]

    def sample(self, start: int, rows: int, call: Invoke) -> dict[str, float]:
        """Sample, and put the scores in place of rewards before anyone sees the rows."""
        seconds = super().sample(start, rows, call)
        views = (self.block.views(key, start, start + rows) for key in ("observations", "rewards"))
        for seen, rewards in zip(*views, strict=True):
            scored = self.judge(seen=seen.reshape(-1, 4))
            rewards[...] = scored["score"].reshape(rewards.shape)
        return seconds


def workload(actors: int = 2, total_steps: int = 50_000) -> Workload:
    """What ``artos run my_judge.py:workload`` runs."""
    actor = Judged("CartPole-v1", envs=ENVS)
    keys = tuple(key.name for key in actor.data_keys())
    return Workload(
        name="judged",
        actor=actor,
        learner=PPO(),
        servers={"judge": Judge()},
        triggers={
            "judge.answer": RequestTrigger(n=actors, wait=0.005),
            "learner.update": DataKeyTrigger(keys, size=STEPS, max_lag=0),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors, steps=STEPS, total_steps=total_steps,
    )  # fmt: skip
