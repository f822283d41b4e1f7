"""DQN from demonstrations (DQfD): the DQN of ``my_dqn.py``, and rows that somebody else made."""

import torch
from my_dqn import DQN, ROW, QNetwork

from artos import DrawnBatch, RolloutActor, Rows, Uniform, Workload
from triggers import ReplayTrigger, RoundTrigger

MARGIN = 0.8


class DQfD(DQN):
    """Also rates what was shown above all else by a margin (Hester et al. 2018, §4)."""

    def losses(self, batch: DrawnBatch, found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """Of each transition, (n,); those of the data set have one more."""
        values = self.module(self.observations(batch))
        shown = self.tensor(batch["actions"]).unsqueeze(1)
        others = values + MARGIN * torch.ones_like(values).scatter(1, shown, 0.0)
        lead = others.max(1).values - found
        return super().losses(batch, found, wanted) + self.tensor(batch.of("demos")) * lead


def workload(
    demos: str = "demos.npz",
    env: str = "CartPole-v1",
    actors: int = 1,
    total_steps: int = 10_000,
    total_updates: int = 0,
) -> Workload:
    """With ``actors=0`` it learns from the data set alone."""
    source = {"demos": 32} if actors else "demos"
    paced = {"ratio": 8.0, "after": 500} if actors else {}
    return Workload(
        name="dqfd",
        actor=RolloutActor(env, QNetwork, envs=4),
        learner=DQfD(lr=1e-3, max_grad_norm=10.0),
        data={"demos": Rows(demos)},
        triggers={
            "learner.update": ReplayTrigger(ROW, Uniform(64, n_step=3), source=source, **paced),
            "actors.sample": RoundTrigger(),
        },
        actors=actors, steps=8, total_steps=total_steps, total_updates=total_updates,
        capacity=10_000, on_full="overwrite",
    )  # fmt: skip
