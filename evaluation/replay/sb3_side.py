"""DQN and SAC of Stable-Baselines3, or of sbx (JAX): updates per second of ``learn``.

``python -m evaluation.replay.sb3_side --rival sb3 --case sac --steps 2000 --threads 2 --envs 1``
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import gymnasium as gym
from stable_baselines3.common.vec_env import DummyVecEnv

from evaluation.baselines.timing import answer
from evaluation.replay.cases import CASES, Case, as_asked
from evaluation.replay.update_rivals import PACKAGES, algorithms


def build(library: str, case: Case, envs: int, threads: int) -> Any:
    """The model with its environments, with one update for every ``case.every`` steps."""
    more: dict[str, Any] = {}
    if case.algorithm == "dqn":
        more["target_update_interval"] = 100 * case.every
    return algorithms(library, threads)[case.algorithm](
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
    parser.add_argument("--rival", choices=sorted(PACKAGES), default="sb3")
    parser.add_argument("--case", choices=sorted(CASES), default="sac")
    for name, value in (("steps", 2_000), ("threads", 1), ("envs", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    case = CASES[options.case]
    model = build(options.rival, case, options.envs, options.threads)
    model.learn(2 * case.after)  # JAX compiles meanwhile
    before, start = model._n_updates, time.perf_counter()
    model.learn(options.steps, reset_num_timesteps=False)
    seconds = time.perf_counter() - start
    updates = as_asked(model._n_updates - before, options.steps // case.every)
    answer({"updates_per_second": updates / seconds}, (*PACKAGES[options.rival], "gymnasium"))


if __name__ == "__main__":
    main()
