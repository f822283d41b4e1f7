"""A seller that draws from replay, and two buyers that learn from whole episodes."""

from functools import partial

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from artos import (
    SAC,
    AgentsActor,
    EpisodeBatch,
    Episodes,
    Invoke,
    Policy,
    SquashedGaussian,
    TorchLearner,
    Uniform,
    Workload,
    discounted,
)
from triggers import DataKeyTrigger, ReplayTrigger, RoundTrigger

BUYERS, STEPS, COST, MOST = ("buyer_0", "buyer_1"), 8, 2.0, 10.0


class Market(ParallelEnv):
    """Each buyer takes the goods at the price or leaves them, and the seller names the next price.

    A buyer earns what the goods are worth to it (0 to 10, new in each step) less the price, the
    seller of each piece the price less its cost.
    """

    metadata = {"name": "market"}
    possible_agents = ["seller", *BUYERS]

    def observation_space(self, agent):
        """How much was sold, or what it is worth; the price, and how late it is."""
        return spaces.Box(0, 1, (3,), np.float32)

    def action_space(self, agent):
        """The next price, or whether to take it."""
        return spaces.Discrete(2) if agent in BUYERS else spaces.Box(0, MOST, (1,), np.float32)

    def reset(self, seed=None, options=None):
        """Begin with the same price."""
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.agents, self.at = [*self.possible_agents], 0
        self.sold, self.price = 0.0, MOST / 2
        return self.seen(), {agent: {} for agent in self.agents}

    def seen(self):
        """What each agent observes; no buyer knows what the other one thinks."""
        self.worth = self.random.random(len(BUYERS))
        known = np.array([self.price / MOST, self.at / STEPS])
        firsts = dict(zip(self.possible_agents, (self.sold, *self.worth), strict=True))
        return {name: np.append(first, known).astype(np.float32) for name, first in firsts.items()}

    def step(self, actions):
        """Trade at the price of before."""
        price, taken = self.price, np.array([bool(actions[name]) for name in BUYERS])
        earned = (price - COST) * taken.sum(), *taken * (self.worth * MOST - price)
        rewards = {n: float(r) for n, r in zip(self.possible_agents, earned, strict=True)}
        self.sold, self.price = taken.mean(), float(actions["seller"][0])
        self.at += 1
        over, names = self.at == STEPS, self.possible_agents
        self.agents = [] if over else [*names]
        ends, nothing = dict.fromkeys(names, over), dict.fromkeys(names, False)
        return self.seen(), rewards, ends, nothing, {name: {} for name in names}


def parallel_env():
    """What ``pettingzoo:my_market`` names."""
    return Market()


class Reinforce(TorchLearner):
    """Each action becomes as much likelier as the return that followed it is above the mean."""

    calls = ("evaluate",)
    reads = ("observations", "actions", "rewards")

    def update(self, batch: EpisodeBatch, call: Invoke) -> dict[str, float]:
        """One gradient step with the rows of all episodes."""
        returns = batch.flat(discounted(batch.padded("rewards"), 0.5))
        weight = self.tensor((returns - returns.mean()) / (returns.std() + 1e-8))
        log_probs, _, _ = self.module.evaluate(
            self.observations(batch), self.tensor(batch["actions"])
        )
        self.step(-(weight * log_probs).mean())
        return {"earned": float(batch.padded("rewards").sum(axis=0).mean())}


def workload(
    total_steps: int = 60_000, ratio: float = 32.0, episodes: int = 32, lr: float = 3e-3
) -> Workload:
    """What ``artos run my_market.py:workload`` runs; every argument is a ``--set``."""
    seller = partial(SquashedGaussian, hidden=(64, 64), random=3_000)
    actor = AgentsActor(
        "pettingzoo:my_market",
        {"seller": "seller", "buyer_*": "buyers"},
        {"seller": seller, "buyers": Policy(hidden=(64,))},
        envs=12,
    )
    return Workload(
        name="market",
        actor=actor,
        learners={
            "seller": SAC(lr=lr, critic_lr=lr, hidden=(64, 64)),
            "buyers": Reinforce(lr=1e-2),
        },
        triggers={
            "seller.update": ReplayTrigger(
                actor.keys("seller"), Uniform(128, gamma=0.5), ratio=ratio, after=1_000
            ),
            "buyers.update": DataKeyTrigger(actor.keys("buyers"), sample=Episodes(episodes)),
            "actors.sample": RoundTrigger(),
        },
        actors=2, steps=16, capacity=4_096, total_steps=total_steps,
    )  # fmt: skip
