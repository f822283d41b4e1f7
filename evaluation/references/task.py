"""What one task is, and the libraries that it is learned by beside ours; imports none of them."""

from __future__ import annotations

from typing import Any, NamedTuple

SB3, CONTRIB = "Stable-Baselines3", "sb3-contrib"
RLLIB, SAMPLE_FACTORY = "RLlib", "Sample Factory"
TIANSHOU, EVOSAX = "Tianshou", "evosax"
FINAL = "mean return in the last tenth"
POLICY_EPS, CRITIC_EPS = 1e-5, 1e-8
"""Adam's epsilon for a policy or Q-network, and for critics and temperatures beside a policy."""


class Task(NamedTuple):
    """One algorithm on one environment, set alike on both sides."""

    env: str
    steps: int
    low: float
    """The lowest return; until an episode ends, that counts."""
    ours: dict[str, Any]
    """Settings by name; ``algorithm`` is its name."""
    theirs: dict[str, Any]
    """Arguments of the other library's class; ``algorithm`` is its name, ``envs`` how many.

    Of RLlib also how many ``runners`` have so many, and the steps of a ``fragment``.
    """
    rival: str = SB3
    bar: float | None = None
    """A mean return that is to be reached, and in no more than 1.25 of the rival's steps."""


def who(task: str, library: str) -> str:
    """A contestant's name."""
    return f"{library}, {task}"
