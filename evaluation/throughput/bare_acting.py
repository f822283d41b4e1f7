"""The bare acting loop in several processes: environment, inference, storing; nothing is sent.

``python -m evaluation.throughput.bare_acting --env pong-ale --processes 2 --envs 4 --seconds 10``
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import os
from typing import Any

import torch

from evaluation.baselines.one_file_ppo import SETTINGS, Loop, acting
from evaluation.baselines.timing import answer


def actor(number: int, options: argparse.Namespace, start: Any, rates: Any) -> None:
    """One process: set up, wait for the others, act."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number % len(cores)]})
    torch.set_num_threads(1)
    settings = dataclasses.replace(SETTINGS[options.env], envs=options.envs)
    loop = Loop(settings, number + 1, 1)
    start.wait()
    rates.put(acting(loop, options.seconds))


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", choices=sorted(SETTINGS), default="pong-ale")
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
