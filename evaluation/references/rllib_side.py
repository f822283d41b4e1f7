"""One training run of RLlib: mean returns in each tenth of its steps.

``python -m evaluation.references.rllib_side "IMPALA, CartPole" 1 100000``
"""

from __future__ import annotations

import math
import os
import sys
from importlib import import_module
from typing import Any

import torch
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from evaluation.baselines import first_weights
from evaluation.baselines.ray_cluster import cluster
from evaluation.baselines.timing import answer
from evaluation.references.curves import parts
from evaluation.references.every_task import EVERY
from evaluation.references.task import POLICY_EPS, Task

_SMOOTHED = 10
"""Episodes of which RLlib reports the mean return; it does not tell those of single ones."""


def _alike(learner: Any) -> Any:
    """The class of this learner with the epsilon that our Adam has, and such first weights."""

    class Alike(learner):  # type: ignore[misc]
        """Sets both once the optimiser is there."""

        def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
            """As it does, with that epsilon and those weights."""
            super().configure_optimizers_for_module(module_id, config)
            for _, optimiser in self.get_optimizers_for_module(module_id):
                for group in optimiser.param_groups:
                    group["eps"] = POLICY_EPS
            for layer in self.module[module_id].modules():
                first_weights.begin(layer)

    return Alike


def config(task: Task, seed: int) -> Any:
    """The task's settings, and an iteration for every 500 steps."""
    given = dict(task.theirs)
    name, fragment = given.pop("algorithm"), given.pop("fragment")
    runners, envs = given.pop("runners"), given.pop("envs")
    base = getattr(import_module(f"ray.rllib.algorithms.{name.lower()}"), f"{name}Config")()
    model = DefaultModelConfig(
        fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False
    )
    return (
        base.environment(task.env)
        .env_runners(
            num_env_runners=runners, num_envs_per_env_runner=envs, rollout_fragment_length=fragment
        )
        .rl_module(model_config=model)
        .learners(num_learners=0)
        .reporting(
            min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=500,
            metrics_num_episodes_for_smoothing=_SMOOTHED,
        )
        .debugging(seed=seed)
        .training(learner_class=_alike(base.get_default_learner_class()), **given)
    )  # fmt: skip


def run(task: Task, seed: int, steps: int) -> list[float]:
    """Train with this seed; returns the curve."""
    at, returns = list[float](), list[float]()
    algorithm = config(task, seed).build_algo()
    try:
        while not at or at[-1] < steps:
            found = algorithm.train()["env_runners"]
            at.append(float(found.get("num_env_steps_sampled_lifetime", 0.0)))
            returns.append(float(found.get("episode_return_mean", math.nan)))
    finally:
        algorithm.stop()
    told = [(s, r) for s, r in zip(at, returns, strict=True) if math.isfinite(r)]
    return parts([s for s, _ in told], [r for _, r in told], steps, task.low)


def main() -> None:
    """Train once."""
    os.environ |= {"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    torch.set_num_threads(1)
    name, seed, steps = sys.argv[1:]
    with cluster(cpus=8, store_bytes=1 << 30):
        curve = run(EVERY[name], int(seed), int(steps))
    rates = {str(number): value for number, value in enumerate(curve)}
    answer(rates, ("ray", "torch", "gymnasium"))


if __name__ == "__main__":
    main()
