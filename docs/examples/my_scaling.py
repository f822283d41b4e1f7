"""A scaling policy of one's own: PPO with two actors until it is any good, then with eight."""

from dataclasses import dataclass
from typing import Any

from artos import Observation, ScalingPolicy, Workload
from triggers.algorithms.ppo import workload


@dataclass
class MoreOnceGood(ScalingPolicy):
    """Few actors until the mean return reaches a goal."""

    least: int = 2
    most: int = 8
    goal: float = 200.0

    def decide(self, seen: Observation, memory: dict[str, Any]) -> int:
        """How many from this update on."""
        if (seen.mean_return or 0.0) >= self.goal:
            memory["good"] = True
        return self.most if "good" in memory else self.least


def patient(goal: float = 200.0, total_steps: int = 100_000) -> Workload:
    """PPO on CartPole-v1; the goal is a mean return of the last 100 episodes."""
    return workload(actors=MoreOnceGood(goal=goal), total_steps=total_steps)
