"""Three agents of two policies, whose learners find out whether rows are those of their agents."""

from __future__ import annotations

from typing import Any

import numpy as np

from artos import PPO, AgentsActor, Batch, Invoke, LearnerContext, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger

AGENTS = {"agent_1": "middle", "agent_*": "others"}
OF = {"middle": (1,), "others": (0, 2)}
LENGTHS = {0: 2, 1: 3, 2: 4}


class Checked(PPO):
    """PPO that looks at its rows first: an agent observes (cue, step, number of the agent, ...)."""

    def setup(self, context: LearnerContext) -> None:
        super().setup(context)
        self.own, self.seen = OF[context.plan.learner], -1

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        seen, valid = batch.gather("observations"), batch.gather("valid").copy()
        each = np.array(self.own * (seen.shape[2] // len(self.own)))
        assert (seen[..., 2:] == each[:, None]).all(), "rows of other agents"
        assert seen.shape[-1] == (4 if self.own == (1,) else 3), "each has a space of its own"
        lasts = np.vectorize(LENGTHS.get)(np.broadcast_to(each, valid.shape))
        assert (seen[..., 1][valid] < lasts[valid]).all(), "an agent is learned from after its end"
        right = batch.gather("actions") == seen[..., 0]
        np.testing.assert_array_equal(batch.gather("rewards"), right & valid)
        versions = batch.versions()
        assert (np.diff(versions) >= 0).all(), "versions never go back"
        assert versions.max() <= self.network.steps, "rows are of versions that it has made"
        return super().update(batch, call) | {"right": float(right[valid].mean())}


def workload(
    total_steps: int = 9_000, steps: int = 16, envs: int = 6, actors: int = 2, lr: float = 5e-3,
    **given: Any,
) -> Workload:  # fmt: skip
    actor = AgentsActor("pettingzoo:guessing(agents=3, uneven=True)", AGENTS, envs=envs)
    return Workload(
        name="guessers",
        actor=actor,
        learners={name: Checked(lr=lr, minibatches=2, anneal=False) for name in actor.policies},
        triggers={
            **{
                f"{name}.update": DataKeyTrigger(actor.keys(name), size=steps)
                for name in actor.policies
            },
            "actors.sample": ObjectKeyTrigger("model_param")
            & ObjectKeyTrigger("others/model_param"),
        },
        actors=actors, steps=steps, total_steps=total_steps, **given,
    )  # fmt: skip
