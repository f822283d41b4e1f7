"""Random network distillation (Burda et al. 2018) with PPO's loss: what is new is a reward, too."""

from collections.abc import Iterator

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from artos import Batch, Invoke, LearnerContext, RolloutActor, TorchLearner, Workload, advantages
from triggers import DataKeyTrigger, ObjectKeyTrigger

SEEN = ("observations", "actions", "log_probs")
EARNED = ("rewards", "values", "bootstraps", "terminations", "truncations")
ROOMS = 25


class Corridor(gym.Env):
    """The only reward is at its end, and there is time for twice as many steps as it takes."""

    observation_space = gym.spaces.Box(0, 1, (ROOMS,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        """Begin in the first room."""
        super().reset(seed=seed)
        self.room = self.steps = 0
        return np.eye(ROOMS, dtype=np.float32)[0], {}

    def step(self, action):
        """One room on or back."""
        self.steps, self.room = self.steps + 1, max(0, self.room + (1 if action else -1))
        there = self.room == ROOMS - 1
        seen = np.eye(ROOMS, dtype=np.float32)[self.room]
        return seen, float(there), there, self.steps == 2 * ROOMS, {}


def network(width: int) -> nn.Module:
    """What is learned by heart, and what learns it."""
    return nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                         nn.Linear(64, 32))  # fmt: skip


class RND(TorchLearner):
    """A predictor learns the outputs of a random network; where it is wrong, a state is new."""

    calls = ("evaluate",)

    def __init__(self, lr: float, weight: float, epochs: int, minibatches: int) -> None:
        super().__init__(lr=lr)
        self.weight, self.epochs, self.minibatches = weight, epochs, minibatches

    def setup(self, context: LearnerContext) -> None:
        """Beside the policy's network own these two, and running statistics."""
        super().setup(context)
        width = context.spec.parts[0].shape[0]
        self.random = self.own("random", network(width))
        self.predictor = self.own("predictor", network(width), lr=1e-3)
        self.middle = self.own("middle", torch.zeros(width))
        self.scale = self.own("scale", torch.ones(width))
        self.usual = self.own("usual", torch.ones(()))

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """Learn from ``batch``, whose arrays are (actors, steps, environments, ...)."""
        rows = {key: batch.gather(key) for key in (*SEEN, *EARNED)}
        data = {key: self.flat(rows[key]) for key in SEEN}
        self.middle().lerp_(data["observations"].mean(0), 0.1)
        self.scale().lerp_(data["observations"].std(0), 0.1)
        new = self.surprise(data["observations"]).detach()
        self.usual().lerp_(new.mean(), 0.1)
        bonus = (new / self.usual()).cpu().numpy().reshape(batch.shape)
        rows["rewards"][:, :-1] += self.weight * bonus[:, 1:]  # of what is seen after the step
        advantage, returns = advantages(*(rows[key] for key in EARNED), 0.99, 0.95)
        data |= {"advantage": self.flat(advantage), "returns": self.flat(returns)}
        for index in self.parts(len(batch), call.firing):
            loss = self.loss({key: rows[index] for key, rows in data.items()})
            self.step(loss)
            self.predictor.step(self.surprise(data["observations"][index]).mean())
        return {"novelty": new.mean().item(), "loss": loss.item()}

    def surprise(self, seen: torch.Tensor) -> torch.Tensor:
        """How new each observation is, (n, width) to (n,)."""
        seen = ((seen - self.middle()) / (self.scale() + 1e-6)).clamp(-5, 5)
        return (self.predictor(seen) - self.random(seen)).square().mean(1)

    def loss(self, rows: dict[str, torch.Tensor]) -> torch.Tensor:
        """PPO's, of a minibatch."""
        seen = {"observations": rows["observations"]}
        log_probs, entropy, values = self.module.evaluate(seen, rows["actions"])
        weight = rows["advantage"]
        weight = (weight - weight.mean()) / (weight.std() + 1e-8)
        ratio = (log_probs - rows["log_probs"]).exp()
        policy_loss = -torch.min(ratio * weight, ratio.clamp(0.8, 1.2) * weight).mean()
        value_loss = (values - rows["returns"]).square().mean()
        return policy_loss + 0.5 * value_loss - 0.01 * entropy.mean()

    def parts(self, rows: int, firing: int) -> Iterator[torch.Tensor]:
        """Indices of all minibatches, by chance that follows from the seed."""
        chance = np.random.default_rng((self.context.seed, firing))
        for _ in range(self.epochs):
            yield from map(self.tensor, np.array_split(chance.permutation(rows), self.minibatches))

    def flat(self, array: np.ndarray) -> torch.Tensor:
        """The first three axes as one: a row per environment step."""
        return self.tensor(array.reshape(-1, *array.shape[3:]))


def workload(
    env: str = "my_rnd:Corridor", actors: int = 2, *, envs: int = 8, steps: int = 128,
    total_steps: int = 100_000, lr: float = 1e-3, weight: float = 1.0, epochs: int = 4,
    minibatches: int = 4,
) -> Workload:  # fmt: skip
    """What ``artos run my_rnd.py:workload`` runs; every argument is a ``--set``."""
    return Workload(
        name="ppo-rnd",
        actor=RolloutActor(env, envs=envs),
        learner=RND(lr, weight, epochs, minibatches),
        triggers={
            "learner.update": DataKeyTrigger((*SEEN, *EARNED), size=steps, max_lag=0),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=actors, steps=steps, total_steps=total_steps,
    )  # fmt: skip
