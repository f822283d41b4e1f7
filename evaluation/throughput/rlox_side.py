"""PPO of rlox on its own CartPole in Rust: environment steps per second of its ``train``.

``python -m evaluation.throughput.rlox_side --seconds 10 --threads 2``
"""

from __future__ import annotations

import argparse
import time

import torch
from rlox.algorithms.ppo import PPO

from evaluation.baselines.timing import answer


def speed(envs: int, steps: int, epochs: int, minibatch: int, seconds: float) -> float:
    """Steps per second of a ``train`` of about ``seconds``; a short one first sets its length."""
    batch = envs * steps
    model = PPO(
        "CartPole-v1", n_envs=envs, seed=1, n_steps=steps, n_epochs=epochs, batch_size=minibatch,
        learning_rate=2.5e-4, anneal_lr=False, clip_eps=0.2, clip_vloss=False, ent_coef=0.01,
    )  # fmt: skip
    start = time.perf_counter()
    model.train(2 * batch)
    guess = 2 * batch / (time.perf_counter() - start)
    wanted = max(2, round(guess * seconds / batch)) * batch
    start = time.perf_counter()
    model.train(wanted)
    return wanted / (time.perf_counter() - start)


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    for name, value in (("threads", 1), ("envs", 8), ("steps", 128), ("epochs", 4)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--minibatch", type=int, default=256)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    pace = speed(chosen.envs, chosen.steps, chosen.epochs, chosen.minibatch, chosen.seconds)
    answer({"steps_per_second": pace}, ("rlox", "torch"))


if __name__ == "__main__":
    main()
