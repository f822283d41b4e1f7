"""Tables of a user's own that cannot work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from artos import Policy, RolloutActor, Sequences, Uniform, Workload
from artos.policies.recurrent import MEMORY, RecurrentActorCritic
from artos.policies.squashed import Deterministic, Softmax, SquashedGaussian
from artos.policies.values import QNetwork
from triggers import ReplayTrigger
from triggers.algorithms import dqn, ppo

KEYS = ("observations", "actions", "rewards", "terminations", "truncations")


class Still(gym.Env[Any, Any]):
    """Nothing happens."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return 0, {}

    def step(self, action: Any) -> Any:
        return 0, 0.0, False, False, {}


class Unbounded(Still):
    """Takes any number."""

    observation_space = spaces.Discrete(3)
    action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)


class Knobs(Still):
    """Several choices at once; shows a category."""

    observation_space = spaces.Discrete(3)
    action_space = spaces.MultiDiscrete([2, 3])


def acting(policy: Any, env: str = "CartPole-v1") -> Workload:
    return replace(dqn.workload(), actor=RolloutActor(env, policy, envs=4))


def drawing(policy: Any = QNetwork, keys: tuple[str, ...] = KEYS, **settings: Any) -> Workload:
    base = acting(policy)
    update = ReplayTrigger(keys, **{"sample": Uniform(64), "ratio": 16.0, **settings})
    return replace(base, capacity=500, triggers={**base.triggers, "learner.update": update})


def values_of_continuous_actions() -> Workload:
    return acting(QNetwork, "Pendulum-v1")


def values_of_several_actions() -> Workload:
    return acting(QNetwork, "unsound:Knobs")


def softmax_of_continuous_actions() -> Workload:
    return acting(Softmax, "Pendulum-v1")


def squashed_choices() -> Workload:
    return acting(SquashedGaussian)


def squashed_without_bounds() -> Workload:
    return acting(SquashedGaussian, "unsound:Unbounded")


def deterministic_choices() -> Workload:
    return acting(Deterministic)


def sequences_too_long() -> Workload:
    return drawing(sample=Sequences(4, 300, burn_in=200))


def recurrent_rows() -> Workload:
    return drawing(RecurrentActorCritic)


def recurrent_without_state() -> Workload:
    return drawing(RecurrentActorCritic, sample=Sequences(4, 8))


def recurrent_and_sound() -> Workload:
    return drawing(RecurrentActorCritic, (*KEYS, MEMORY), sample=Sequences(4, 8))


def no_slack() -> Workload:
    return drawing(slack=1.0)


def too_much_warm_up() -> Workload:
    return drawing(after=100_000)


def never_warm() -> Workload:
    return replace(drawing(after=1_000), total_steps=900)


def nobody_writes() -> Workload:
    return drawing(keys=(*KEYS, "altitude"))


def scaled_categories() -> Workload:
    base = ppo.workload("CartPole-v1")
    return replace(base, actor=RolloutActor("unsound:Knobs", Policy(normalize=True), envs=4))
