"""One training run of Tianshou: mean returns in each tenth of its steps.

``python -m evaluation.catalogue.tianshou_side "Rainbow, CartPole" 1 30000``
"""

from __future__ import annotations

import math
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from tianshou.algorithm.modelfree.discrete_sac import DiscreteSAC, DiscreteSACPolicy
from tianshou.algorithm.modelfree.rainbow import C51Policy, RainbowDQN
from tianshou.algorithm.modelfree.sac import AutoAlpha
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, PrioritizedReplayBuffer, ReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic, NoisyLinear
from tianshou.utils.torch_utils import policy_within_training_step

from evaluation.baselines.timing import answer
from evaluation.catalogue.told import Told
from evaluation.references.curves import parts
from evaluation.references.every_task import EVERY
from evaluation.references.task import CRITIC_EPS, POLICY_EPS, Task

_ALPHA, _BETA, _KEPT = 0.5, 0.4, 100_000


class Noisy(NoisyLinear):  # type: ignore[misc]
    """Draws its noise for each batch, also to act: its collectors would act without any."""

    def train(self, mode: bool = True) -> Noisy:
        """Stay noisy."""
        del mode
        found: Noisy = super().train(True)
        return found

    def forward(self, x: Any) -> Any:
        """As it does, with new noise."""
        self.sample()
        return super().forward(x)


def rainbow(given: dict[str, Any], env: Any) -> Any:
    """Distributions of values, with noisy layers; state and advantages apart from the input on."""
    side = {"hidden_sizes": given["hidden"], "linear_layer": Noisy}
    net = Net(
        state_shape=env.observation_space.shape, action_shape=env.action_space.n, softmax=True,
        num_atoms=51, dueling_param=(side, side),
    )  # fmt: skip
    policy = C51Policy(
        net, env.action_space, env.observation_space, 51, given["v_min"], given["v_max"]
    )
    return RainbowDQN(
        policy=policy, optim=AdamOptimizerFactory(lr=given["lr"], eps=POLICY_EPS),
        n_step_return_horizon=given["n_step"], target_update_freq=given["target_every"],
    )  # fmt: skip


def discrete_sac(given: dict[str, Any], env: Any) -> Any:
    """SAC whose policy has a logit, and whose critics have a value, for each action."""
    shape, choices = env.observation_space.shape, env.action_space.n

    def net() -> Net:
        return Net(state_shape=shape, hidden_sizes=given["hidden"])

    adam = AdamOptimizerFactory(lr=given["lr"], eps=CRITIC_EPS)
    adam_of_policy = AdamOptimizerFactory(lr=given["lr"], eps=POLICY_EPS)
    actor = DiscreteActor(preprocess_net=net(), action_shape=choices, softmax_output=False)
    critics = [DiscreteCritic(preprocess_net=net(), last_size=choices) for _ in range(2)]
    return DiscreteSAC(
        policy=DiscreteSACPolicy(actor=actor, action_space=env.action_space),
        policy_optim=adam_of_policy, critic=critics[0], critic_optim=adam, critic2=critics[1],
        critic2_optim=adam, alpha=AutoAlpha(given["target_entropy"], 0.0, adam),
    )  # fmt: skip


def run(task: Task, seed: int, steps: int) -> list[float]:
    """Train with this seed; returns the curve."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # of which its buffers draw
    given, env = dict(task.theirs), Told(gym.make(task.env))
    envs = DummyVectorEnv([lambda: env])
    envs.seed(seed)
    kept = given.get("replay_size", _KEPT)
    if given["algorithm"] == "Rainbow":
        algorithm, random = rainbow(given, env), False
        buffer: Any = PrioritizedReplayBuffer(kept, _ALPHA, _BETA)
    else:
        algorithm, random, buffer = discrete_sac(given, env), True, ReplayBuffer(kept)
    collector = Collector(algorithm, envs, buffer, exploration_noise=True)
    collector.reset()
    with policy_within_training_step(algorithm.policy):
        collector.collect(n_step=given["after"], random=random)
        while env.steps < steps:
            collector.collect(n_step=given["collected"])
            if isinstance(buffer, PrioritizedReplayBuffer):
                buffer.set_beta(_BETA + (1 - _BETA) * min(1.0, env.steps / steps))
            for _ in range(given["updates"]):
                found = algorithm.update(buffer=buffer, sample_size=given["batch"])
    assert all(math.isfinite(value) for value in found.get_loss_stats_dict().values())
    return parts(env.at, env.returns, steps, task.low)


def main() -> None:
    """Train once."""
    torch.set_num_threads(1)
    name, seed, steps = sys.argv[1:]
    curve = run(EVERY[name], int(seed), int(steps))
    packages = ("tianshou", "torch", "gymnasium")
    answer({str(number): value for number, value in enumerate(curve)}, packages)


if __name__ == "__main__":
    main()
