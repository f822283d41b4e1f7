"""Nim against a league of past versions, those that are hard to beat more often."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from artos import PPO, AgentsActor, Past, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger

STICKS, MOST = 10, 3


class Nim(ParallelEnv):
    """Two players take one to three sticks in turn; whoever takes the last one wins."""

    metadata = {"name": "nim"}
    possible_agents = ["first", "second"]

    def observation_space(self, agent):
        """How many sticks are left, and whether it is one's turn."""
        return spaces.Box(0, 1, (STICKS + 2,), np.float32)

    def action_space(self, agent):
        """One, two or three; of who waits nothing is taken."""
        return spaces.Discrete(MOST)

    def reset(self, seed=None, options=None):
        """All sticks are there."""
        self.agents, self.left, self.turn = [*self.possible_agents], STICKS, 0
        return self.seen()

    def seen(self):
        """Observations and infos: what may be taken, and one action only for who waits."""
        seen, infos = {}, {}
        for number, agent in enumerate(self.possible_agents):
            mine = number == self.turn
            seen[agent] = np.append(np.eye(STICKS + 1)[self.left], mine).astype(np.float32)
            allowed = max(1, min(MOST, self.left)) if mine else 1
            infos[agent] = {"action_mask": np.arange(MOST) < allowed}
        return seen, infos

    def step(self, actions):
        """Whoever is at its turn takes sticks."""
        mover, other = (self.possible_agents[n] for n in (self.turn, 1 - self.turn))
        self.left, self.turn = self.left - int(actions[mover]) - 1, 1 - self.turn
        over, (seen, infos) = self.left == 0, self.seen()
        if over:
            self.agents = []
        ends = dict.fromkeys(self.possible_agents, over)
        nothing = dict.fromkeys(self.possible_agents, False)
        return seen, {mover: float(over), other: -float(over)}, ends, nothing, infos


def parallel_env():
    """What ``pettingzoo:my_league`` names."""
    return Nim()


class League(AgentsActor):
    """Meets a past version the more often the less it wins (Vinyals et al. 2019)."""

    kept = ("won", "met")

    def __init__(self, *given, **named) -> None:
        super().__init__(*given, **named)
        self.won, self.met = dict[int, float](), -1

    def opponent(self, policy, pasts):
        """Who plays as ``Past`` in the round that begins."""
        hard = np.array([(1 - self.won.get(past.version, 0.5)) ** 2 + 0.01 for past in pasts])
        chosen = pasts[self._random.choice(len(pasts), p=hard / hard.sum())]
        self.met = chosen.version
        return chosen

    def episodes(self):
        """Returns and lengths; how often it won is noted."""
        returns, lengths = super().episodes()
        if returns:
            share = float(np.mean(np.array(returns) > 0))
            self.won[self.met] = (self.won.get(self.met, 0.5) + share) / 2
        return returns, lengths


def workload(
    total_steps: int = 120_000,
    lr: float = 3e-3,
    steps: int = 32,
    envs: int = 32,
    history: int = 8,
    every: int = 3,
) -> Workload:
    """What ``artos run my_league.py:workload`` runs; every argument is a ``--set``."""
    actor = League(
        "pettingzoo:my_league",
        {"first": "self", "second": Past("self")},
        envs=envs,
        history=history,
        every=every,
        swap=True,
    )
    return Workload(
        name="league",
        actor=actor,
        learners={"self": PPO(lr=lr, ent_coef=0.01)},
        triggers={
            "self.update": DataKeyTrigger(actor.keys("self"), size=steps),
            "actors.sample": ObjectKeyTrigger("model_param"),
        },
        actors=2, steps=steps, total_steps=total_steps,
    )  # fmt: skip
