"""Ape-X: the DQN of ``my_dqn.py`` with many actors, each exploring in its own way."""

import torch
from my_dqn import DQN, ROW, QNetwork

from artos import ActInfo, Prioritised, RolloutActor, Workload
from triggers import ReplayTrigger, RoundTrigger


class Explorer(QNetwork):
    """Actor i of N acts at random with probability 0.4 ** (1 + 7 i / (N - 1))."""

    def act(self, obs: dict[str, torch.Tensor], info: ActInfo) -> dict[str, torch.Tensor]:
        """The best action of each environment, or any other one."""
        best = self(obs).argmax(1)
        epsilon = 0.0 if info.greedy else 0.4 ** (1 + 7 * info.actor / max(1, info.actors - 1))
        anything = torch.randint(self.choices, best.shape)
        return {"actions": torch.where(torch.rand(best.shape) < epsilon, anything, best)}


class ApeX(DQN):
    """Weighs rows by how unlikely they were drawn, and gives them new priorities."""

    def losses(self, batch, found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """(n,), weighed."""
        batch.prioritise((found - wanted).abs().detach().cpu().numpy())
        return self.tensor(batch.weights) * super().losses(batch, found, wanted)


def workload(env: str = "CartPole-v1", actors: int = 3, total_steps: int = 40_000) -> Workload:
    """What ``artos run my_apex.py:workload`` runs; every argument is a ``--set``."""
    drawn = Prioritised(64, alpha=0.6, beta=(0.4, 1.0), n_step=3)
    return Workload(
        name="apex",
        actor=RolloutActor(env, Explorer, envs=2),
        learner=ApeX(lr=1e-3, max_grad_norm=10.0),
        triggers={
            "learner.update": ReplayTrigger(ROW, drawn, ratio=8.0, after=1_000),
            "actors.sample": RoundTrigger(),
        },
        actors=actors, steps=8, total_steps=total_steps, capacity=10_000, on_full="overwrite",
    )  # fmt: skip
