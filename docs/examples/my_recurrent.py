"""Recurrent PPO: a policy that remembers, and a learner that goes through its rounds in order."""

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

from artos import (
    ActInfo,
    Batch,
    DataKey,
    Invoke,
    RolloutActor,
    TorchLearner,
    Workload,
    advantages,
)
from triggers import DataKeyTrigger, ObjectKeyTrigger

ROW = (
    "observations", "actions", "rewards", "terminations", "truncations", "ages",
    "log_probs", "values", "bootstraps", "memory",
)  # fmt: skip


class Remembering(nn.Module):
    """A recurrent cell between two layers; its state is 64 numbers for each environment."""

    state = (DataKey("memory", (64,)),)

    def __init__(self, spec) -> None:
        super().__init__()
        self.inside = nn.Linear(spec.parts[0].shape[0], 64)
        self.cell = nn.GRUCell(64, 64)
        self.logits, self.critic = nn.Linear(64, spec.actions.sizes[0]), nn.Linear(64, 1)

    def step(self, seen: torch.Tensor, memory: torch.Tensor):
        """The choice, the value (B,) and the new memory (B, 64)."""
        memory = self.cell(torch.tanh(self.inside(seen)), memory)
        return Categorical(logits=self.logits(memory)), self.critic(memory).squeeze(-1), memory

    def act(self, obs: dict[str, torch.Tensor], info: ActInfo) -> dict[str, torch.Tensor]:
        """A draw for each environment, or the likeliest action."""
        choice, values, memory = self.step(obs["observations"], info.state["memory"])
        actions = choice.probs.argmax(-1) if info.greedy else choice.sample()
        logs = choice.log_prob(actions)
        return {"actions": actions, "log_probs": logs, "values": values, "memory": memory}

    def value(self, obs: dict[str, torch.Tensor], state: dict[str, torch.Tensor]) -> torch.Tensor:
        """Values (B,) of what follows a truncation or a round."""
        return self.step(obs["observations"], state["memory"])[1]

    def unroll(self, seen, actions, memory, begins):
        """Log probabilities, entropy and values of sequences, each (T, B)."""
        found = []
        for step in range(len(seen)):
            memory = memory * ~begins[step].unsqueeze(-1)
            choice, values, memory = self.step(seen[step], memory)
            found.append((choice.log_prob(actions[step]), choice.entropy(), values))
        return (torch.stack(each) for each in zip(*found, strict=True))


class RecurrentPPO(TorchLearner):
    """Clipped steps on whole sequences."""

    calls = ("unroll",)

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """Four passes over all sequences."""
        rows = {key: batch.gather(key) for key in ROW}
        advantage, returns = advantages(
            rows["rewards"], rows["values"], rows["bootstraps"],
            rows["terminations"], rows["truncations"], 0.99, 0.95,
        )  # fmt: skip
        weight = self.sequences((advantage - advantage.mean()) / (advantage.std() + 1e-8))
        target, before = self.sequences(returns), self.sequences(rows["log_probs"])
        seen, actions = self.sequences(rows["observations"]), self.sequences(rows["actions"])
        memory, begins = self.sequences(rows["memory"])[0], self.sequences(rows["ages"]) == 0
        for _ in range(4):
            logs, entropy, values = self.module.unroll(seen, actions, memory, begins)
            ratio = (logs - before).exp()
            gain = torch.minimum(ratio * weight, ratio.clamp(0.8, 1.2) * weight).mean()
            value_loss = (values - target).square().mean()
            self.step(0.02 * value_loss - gain - 0.01 * entropy.mean())
        return {"gain": gain.item(), "value_loss": value_loss.item()}

    def sequences(self, array: np.ndarray) -> torch.Tensor:
        """(actors, steps, environments, ...) as (steps, sequences, ...)."""
        return self.tensor(array.swapaxes(0, 1).reshape(array.shape[1], -1, *array.shape[3:]))


def workload(env: str = "CartPole-v1", actors: int = 2, total_steps: int = 60_000) -> Workload:
    """What ``artos run my_recurrent.py:workload`` runs; every argument is a ``--set``."""
    return Workload(
        name="recurrent",
        actor=RolloutActor(env, Remembering, envs=4),
        learner=RecurrentPPO(lr=2e-3),
        triggers={
            "learner.update": DataKeyTrigger(ROW, n=actors, size=32),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors, steps=32, total_steps=total_steps,
    )  # fmt: skip
