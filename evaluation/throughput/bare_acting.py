"""The bare acting loop in several processes: environment, inference, storing; nothing is sent.

``python -m evaluation.throughput.bare_acting --processes 2 --envs 4 --seconds 10``

It makes its environments, and acts in them, by the functions of ARTOS that actors use, with the
same network; so what is between the two is only what buffer and triggers cost.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from typing import Any

import numpy as np
import torch

from artos.envs.make import describe, make_vector
from artos.policies.acting import ActInfo
from artos.policies.build import Policy
from artos.policies.fast import make_actor
from evaluation.baselines.timing import answer

STEPS = 128


def acting(env: str, envs: int, seed: int, seconds: float, start: Any) -> float:
    """Steps per second of whole rounds over at least ``seconds``, after a warm-up round."""
    spec = describe(env)
    (part,) = spec.parts
    vector = make_vector(env, envs, seed)
    policy = make_actor(Policy().build(spec, 1), spec, seed)
    shown = np.empty((STEPS, envs, *part.shape), part.dtype)
    stored: dict[str, Any] = {}

    def act(seen: Any) -> Any:
        for t in range(STEPS):
            shown[t] = seen[:, -1] if part.stack > 1 else seen  # of a stack the newest frame
            output = policy.act({part.name: seen}, ActInfo())
            seen, rewards, ended, cut, _ = vector.step(output["actions"])
            found = {**output, "rewards": np.sign(rewards), "ended": ended, "cut": cut}
            for name, value in found.items():
                if name not in stored:
                    stored[name] = np.empty((STEPS, *value.shape), value.dtype)
                stored[name][t] = value
        return seen

    seen = act(vector.reset(seed=seed)[0])
    start.wait()
    rounds, began = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds:
        seen = act(seen)
        rounds += 1
    vector.close()
    return rounds * STEPS * envs / elapsed


def actor(number: int, options: argparse.Namespace, start: Any, rates: Any) -> None:
    """One process: set up, wait for the others, act."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number % len(cores)]})
    torch.set_num_threads(1)
    rates.put(acting(options.env, options.envs, number + 1, options.seconds, start))


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="PongNoFrameskip-v4")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--envs", type=int, default=4)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    start, rates = context.Barrier(options.processes), context.Queue()
    actors = [
        context.Process(target=actor, args=(number, options, start, rates), daemon=True)
        for number in range(options.processes)
    ]
    for process in actors:
        process.start()
    total = sum(rates.get(timeout=120 + options.seconds) for _ in actors)
    for process in actors:
        process.join()
    answer({"steps_per_second": total}, ("torch", "gymnasium"))


if __name__ == "__main__":
    main()
