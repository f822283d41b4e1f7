"""Recurrent Q-learning (R2D2): windows from replay, of which the first rows warm up the memory."""

import copy

import torch
from torch import nn
from torch.nn import functional

from artos import (
    ActInfo,
    DataKey,
    DrawnBatch,
    Invoke,
    LearnerContext,
    RolloutActor,
    Sequences,
    TorchLearner,
    Workload,
)
from triggers import ReplayTrigger, RoundTrigger

ROW = ("observations", "actions", "rewards", "terminations", "truncations", "memory")


class Remembering(nn.Module):
    """Values of all actions by what was seen so far in the episode."""

    outputs = ()
    state = (DataKey("memory", (64,)),)

    def __init__(self, spec) -> None:
        super().__init__()
        self.choices = spec.actions.sizes[0]
        self.inside = nn.Linear(spec.parts[0].shape[0], 64)
        self.cell, self.values = nn.GRUCell(64, 64), nn.Linear(64, self.choices)

    def act(self, obs: dict[str, torch.Tensor], info: ActInfo) -> dict[str, torch.Tensor]:
        """The best action of each environment, or any one with probability ``epsilon``."""
        memory = self.cell(torch.relu(self.inside(obs["observations"])), info.state["memory"])
        best = self.values(memory).argmax(1)
        epsilon = 0.0 if info.greedy else max(0.02, 1 - 5 * info.progress)
        anything = torch.randint(self.choices, best.shape)
        actions = torch.where(torch.rand(best.shape) < epsilon, anything, best)
        return {"actions": actions, "memory": memory}

    def unroll(self, obs, state, ends):
        """Values (T, n, choices) of sequences, and the state after them."""
        seen, memory, found = torch.relu(self.inside(obs["observations"])), state["memory"], []
        for x, over in zip(seen, ends, strict=True):
            memory = self.cell(x, memory)
            found.append(self.values(memory))
            memory = memory * ~over.unsqueeze(1)
        return torch.stack(found), {"memory": memory}


class R2D2(TorchLearner):
    """Double Q-learning on sequences; the stored state goes through the burn-in first."""

    publishing = "itself"
    calls = ("unroll",)

    def setup(self, context: LearnerContext) -> None:
        """Beside the policy's network, own a second one that follows it."""
        super().setup(context)
        self.target = self.own("target", copy.deepcopy(self.module))

    def update(self, batch: DrawnBatch, call: Invoke) -> dict[str, float]:
        """A step on the rows of each window that have a successor in it."""
        windows = self.windows(batch)
        rows, counts = windows.learned, windows.learned.mask[:-1]
        state = windows.warmed_up(self.module.unroll)
        values, _ = self.module.unroll(rows.obs, state, rows.ends)
        with torch.no_grad():
            unroll = self.target.module.unroll
            rated, _ = unroll(rows.obs, windows.warmed_up(unroll), rows.ends)
            best = values[1:].argmax(-1, keepdim=True)
            going_on = ~rows.rows["terminations"][:-1]
            after = going_on * rated[1:].gather(-1, best).squeeze(-1)
            wanted = rows.rows["rewards"][:-1] + 0.99 * after
        found = values[:-1].gather(-1, rows.rows["actions"][:-1].unsqueeze(-1)).squeeze(-1)
        loss = functional.smooth_l1_loss(found[counts], wanted[counts])
        self.step(loss)
        if self.network.steps % 100 == 0:
            self.target.follow(self.network)
        if self.network.steps % 8 == 0:
            self.publish()
        return {"loss": loss.item(), "q": found.mean().item()}


def workload(env: str = "CartPole-v1", actors: int = 2, total_steps: int = 40_000) -> Workload:
    """What ``artos run my_r2d2.py:workload`` runs; every argument is a ``--set``."""
    drawn = Sequences(32, length=8, burn_in=4)
    return Workload(
        name="r2d2",
        actor=RolloutActor(env, Remembering, envs=4),
        learner=R2D2(lr=1e-3),
        triggers={
            "learner.update": ReplayTrigger(ROW, drawn, ratio=16.0, after=1_000),
            "actors.sample": RoundTrigger(),
        },
        actors=actors, steps=8, capacity=10_000, on_full="overwrite", total_steps=total_steps,
    )  # fmt: skip
