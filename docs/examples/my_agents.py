"""A speaker and two listeners: agents of two policies, each of which has a learner of its own."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from artos import PPO, AgentsActor, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger

SYMBOLS, STEPS = 3, 8
ONE = np.eye(SYMBOLS, dtype=np.float32)


class Signals(ParallelEnv):
    """The speaker sees a symbol and says a word, which the listeners hear in the next step.

    Then they guess the symbol. All are paid for each of the guesses that is right.
    """

    metadata = {"name": "signals"}
    possible_agents = ["speaker", "listener_0", "listener_1"]

    def observation_space(self, agent):
        """What is seen or heard, one of SYMBOLS; a speaker also sees how late it is."""
        return spaces.Box(0, 1, (SYMBOLS + (agent == "speaker"),), np.float32)

    def action_space(self, agent):
        """A word or a guess."""
        return spaces.Discrete(SYMBOLS)

    def reset(self, seed=None, options=None):
        """Begin with a symbol, and no word."""
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.agents, self.at, self.heard = [*self.possible_agents], 0, ONE[0] * 0
        self.symbol = self.random.integers(SYMBOLS)
        return self.seen(), {agent: {} for agent in self.agents}

    def seen(self):
        """What each agent observes."""
        shown = np.append(ONE[self.symbol], np.float32(self.at / STEPS))
        return {"speaker": shown, "listener_0": self.heard.copy(), "listener_1": self.heard.copy()}

    def step(self, actions):
        """The guesses are of the symbol that the word was said for."""
        right = sum(actions[name] == self.said_for for name in self.agents[1:]) if self.at else 0
        self.said_for, self.heard = self.symbol, ONE[actions["speaker"]]
        self.symbol, self.at = self.random.integers(SYMBOLS), self.at + 1
        ends = dict.fromkeys(self.agents, self.at == STEPS)
        found = self.seen(), dict.fromkeys(self.agents, float(right)), ends
        nothing = dict.fromkeys(self.agents, False), {agent: {} for agent in self.agents}
        if self.at == STEPS:
            self.agents = []
        return *found, *nothing


def parallel_env():
    """What ``pettingzoo:my_agents`` names."""
    return Signals()


def workload(
    total_steps: int = 40_000, lr: float = 3e-3, steps: int = 64, envs: int = 24
) -> Workload:
    """What ``artos run my_agents.py:workload`` runs; every argument is a ``--set``."""
    agents = {"speaker": "speaker", "listener_*": "listener"}
    actor = AgentsActor("pettingzoo:my_agents", agents, envs=envs)
    return Workload(
        name="signals",
        actor=actor,
        learners={name: PPO(lr=lr, gamma=0.5, ent_coef=0.01) for name in actor.policies},
        triggers={
            "speaker.update": DataKeyTrigger(actor.keys("speaker"), size=steps),
            "listener.update": DataKeyTrigger(actor.keys("listener"), size=steps),
            "actors.sample": ObjectKeyTrigger("speaker/model_param")
            & ObjectKeyTrigger("listener/model_param"),
        },
        actors=2, steps=steps, total_steps=total_steps,
    )  # fmt: skip
