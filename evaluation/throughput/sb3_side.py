"""PPO of Stable-Baselines3, or of sbx (JAX): steps per second of its ``learn``, after a warm-up.

``python -m evaluation.throughput.sb3_side --env cartpole --seconds 10 --threads 2 --envs 8``
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from evaluation.baselines.one_file_ppo import make_pong
from evaluation.baselines.timing import answer
from evaluation.replay.update_rivals import PACKAGES, algorithms

MODELS: dict[str, dict[str, Any]] = {
    # MlpPolicy: two layers of 64 tanh for the policy and two for the value.
    "cartpole": {"policy": "MlpPolicy", "clip_range": 0.2},
    # CnnPolicy: the Nature network.
    "pong": {"policy": "CnnPolicy", "clip_range": 0.1},
}


def make_cartpole() -> gym.Env[Any, Any]:
    """One CartPole-v1."""
    return gym.make("CartPole-v1")


def build(options: argparse.Namespace) -> Any:
    """Build the model with its environments."""
    make = make_pong if options.env == "pong" else make_cartpole
    kind = SubprocVecEnv if options.processes else DummyVecEnv
    more = {} if options.rival == "sbx" else {"device": options.device}
    return algorithms(options.rival, options.threads)["ppo"](
        env=kind([make] * options.envs), n_steps=options.steps, batch_size=options.minibatch,
        n_epochs=options.epochs, learning_rate=2.5e-4, ent_coef=0.01, seed=1,
        vf_coef=0.25,  # of the square; ours is 0.5 of half of it
        **MODELS[options.env], **more,
    )  # fmt: skip


def speed(model: Any, batch: int, seconds: float) -> float:
    """Steps per second of a ``learn`` of about ``seconds``; a short one first sets its length."""
    start = time.perf_counter()
    model.learn(2 * batch)
    guess = 2 * batch / (time.perf_counter() - start)
    steps = max(2, round(guess * seconds / batch)) * batch
    start = time.perf_counter()
    model.learn(steps)
    return float(steps / (time.perf_counter() - start))


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line, or these words of one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rival", choices=sorted(PACKAGES), default="sb3")
    parser.add_argument("--env", choices=sorted(MODELS), default="cartpole")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--processes", action="store_true", help="one process per environment")
    for name, value in (("threads", 1), ("envs", 8), ("steps", 128), ("epochs", 4)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--minibatch", type=int, default=256)
    parser.add_argument("--device", default="cpu")
    return parser.parse_args(arguments)


def main() -> None:
    """Measure once."""
    options = options_of()
    model = build(options)
    pace = speed(model, options.envs * options.steps, options.seconds)
    model.get_env().close()
    answer({"steps_per_second": pace}, (*PACKAGES[options.rival], "gymnasium"))


if __name__ == "__main__":
    main()
