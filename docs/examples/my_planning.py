"""Planning with models that are learned, as in PETS (Chua et al. 2018): the policy is a search."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from artos import ActInfo, DrawnBatch, Invoke, RolloutActor, TorchLearner, Uniform, Workload
from triggers import ReplayTrigger, RoundTrigger

ROW = ("observations", "actions", "rewards", "terminations", "truncations")
MODELS = 3
AHEAD, TRIED, KEPT, ROUNDS = 20, 64, 8, 3


class Planner(nn.Module):
    """Several models of the environment, and a policy that plans with them."""

    outputs = ()

    def __init__(self, spec) -> None:
        super().__init__()
        width, self.choices = spec.parts[0].shape[0], spec.actions.sizes[0]
        self.models = nn.ModuleList(
            nn.Sequential(
                nn.Linear(width + self.choices, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(),
                nn.Linear(64, width + 2),
            )
            for _ in range(MODELS)
        )  # fmt: skip
        self.register_buffer("usual", torch.ones(width))

    def forward(self, seen: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What each model says of its own rows, (MODELS, n, width) and (MODELS, n).

        The change in units of the usual one, the reward, and the logits of going on.
        """
        chosen = functional.one_hot(actions, self.choices).float()
        pairs = zip(self.models, torch.cat([seen, chosen], 2), strict=True)
        found = torch.stack([model(rows) for model, rows in pairs])
        return found[..., :-2], found[..., -2], found[..., -1]

    def worth(self, seen: Tensor, plans: Tensor) -> Tensor:
        """What plans (B, n, AHEAD) return from what is seen, (B, width), on average: (B, n)."""
        now = seen.repeat_interleave(plans.shape[1], 0).expand(MODELS, -1, -1)
        on, total = torch.ones(now.shape[:2]), torch.zeros(now.shape[:2])
        for actions in plans.flatten(0, 1).T:
            change, reward, logits = self(now, actions.expand(MODELS, -1))
            now, total = now + change * self.usual, total + on * reward
            on = on * logits.sigmoid()
        return total.mean(0).view(plans.shape[:2])

    def act(self, obs: dict[str, Tensor], info: ActInfo) -> dict[str, Tensor]:
        """The first action of the plan that the cross-entropy method arrives at."""
        seen = obs["observations"]
        odds = torch.ones(len(seen), AHEAD, self.choices)
        for _ in range(ROUNDS):
            plans = torch.multinomial(odds.flatten(0, 1), TRIED, replacement=True)
            plans = plans.view(len(seen), AHEAD, TRIED).transpose(1, 2)
            best = self.worth(seen, plans).topk(KEPT).indices
            kept = plans.gather(1, best.unsqueeze(2).expand(-1, -1, AHEAD))
            odds = functional.one_hot(kept, self.choices).float().mean(1)
        epsilon = 0.0 if info.greedy else 1.0 if info.steps < 500 else 0.05
        anything = torch.randint(self.choices, seen.shape[:1])
        by_chance = torch.rand(len(seen)) < epsilon
        return {"actions": torch.where(by_chance, anything, odds[:, 0].argmax(1))}


class Models(TorchLearner):
    """Fits each model to rows of its own."""

    publishing = "itself"

    def update(self, batch: DrawnBatch, call: Invoke) -> dict[str, float]:
        """One step on the transitions that the trigger has drawn."""
        seen, after = self.of_each(batch["observations"]), self.of_each(batch["next.observations"])
        rewards = self.of_each(batch["n_step.returns"])
        on = self.of_each(batch["n_step.discounts"] > 0).float()
        self.module.usual.lerp_((after - seen).std((0, 1)), 0.01)
        change, reward, logits = self.module(seen, self.of_each(batch["actions"]))
        error = functional.mse_loss(change, (after - seen) / self.module.usual)
        ends = functional.binary_cross_entropy_with_logits(logits, on)
        self.step(error + functional.mse_loss(reward, rewards) + ends)
        if self.network.steps % 16 == 0:
            self.publish()
        return {"error": error.item(), "ends": ends.item()}

    def of_each(self, rows: np.ndarray) -> Tensor:
        """Rows (n, ...) as those of each model, (MODELS, n / MODELS, ...)."""
        return self.tensor(rows).unflatten(0, (MODELS, -1))


def workload(
    env: str = "CartPole-v1", actors: int = 2, total_steps: int = 10_000, lr: float = 1e-3
) -> Workload:
    """What ``artos run my_planning.py:workload`` runs; every argument is a ``--set``."""
    batch = MODELS * 64
    return Workload(
        name="planning",
        actor=RolloutActor(env, Planner, envs=2),
        learner=Models(lr),
        triggers={
            "learner.update": ReplayTrigger(ROW, Uniform(batch), ratio=64.0, after=500),
            "actors.sample": RoundTrigger(),
        },
        actors=actors, steps=8, total_steps=total_steps, capacity=20_000, on_full="overwrite",
    )  # fmt: skip
