"""DQN and SAC of Stable-Baselines3: environment steps per second of ``learn``.

``python -m evaluation.replay.sb3_side --case sac --steps 2000 --threads 2 --envs 1``
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import gymnasium as gym
import torch
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.vec_env import DummyVecEnv

from evaluation.baselines.timing import answer
from evaluation.replay.cases import CASES, Case

MODELS: dict[str, type[DQN] | type[SAC]] = {"dqn": DQN, "sac": SAC}


def build(case: Case, envs: int) -> Any:
    """The model with its environments, with one update for every ``case.every`` steps."""
    more: dict[str, Any] = {}
    if case.algorithm == "dqn":
        more["target_update_interval"] = 100 * case.every
    return MODELS[case.algorithm](
        "MlpPolicy",
        DummyVecEnv([lambda: gym.make(case.env)] * envs),
        batch_size=case.batch,
        train_freq=max(1, case.every // envs),
        gradient_steps=1,
        learning_starts=case.after,
        policy_kwargs={"net_arch": list(case.hidden)},
        device="cpu",
        seed=1,
        **more,
    )


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=sorted(CASES), default="sac")
    for name, value in (("steps", 2_000), ("threads", 1), ("envs", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = build(CASES[options.case], options.envs)
    start = time.perf_counter()
    model.learn(options.steps)
    pace = model.num_timesteps / (time.perf_counter() - start)
    answer({"steps_per_second": pace}, ("stable-baselines3", "torch", "gymnasium"))


if __name__ == "__main__":
    main()
