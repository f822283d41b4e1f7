"""Learners: the consuming role, as run in learner processes."""

from artos.learners.ppo import PPO
from artos.learners.torch_learner import TorchLearner

__all__ = ["PPO", "TorchLearner"]
