"""PPO on Pong with Ray actors, with more actors at set updates: the cost of each update.

The driver is the learner. As it knows the schedule, it has Ray create actors ``--early`` updates
before they are due, without waiting, and waits once it needs them. From then on they hold their CPU
to the end ("fixed-scale": Ray cannot lend a CPU out between rounds). With ``--preload`` Ray has a
process for each actor before the clock starts, with the modules imported. Prints a JSON line per
update, then the answer.

``python -m evaluation.elasticity.ray_adaptive --schedule 2:0,4:5,6:10 --count 15``
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from evaluation.baselines.one_file_ppo import SETTINGS, Settings
from evaluation.baselines.ray_actors import ActiveActors, shared
from evaluation.baselines.ray_cluster import cluster, results, settle, wait_for
from evaluation.baselines.split_ppo import MODULES, Learner, Round, Sampler
from evaluation.baselines.timing import answer
from evaluation.elasticity.adaptive import Schedule, Update, line, parse, summary, write

_LEAST_STORE_BYTES, _ROUNDS_KEPT = 512 << 20, 4
_ROW_BYTES = 4 * 84 * 84 + 64
_EPISODES = 100


class Run:
    """A learner and its actors. ``returns`` are those of the last 100 of all ``episodes``."""

    def __init__(
        self, settings: Settings, schedule: Schedule, updates: int, seed: int, deadline: float,
        early: int = 1,
    ) -> None:  # fmt: skip
        self._schedule, self._updates, self._deadline = schedule, updates, deadline
        self._early = early
        self.returns, self.episodes = deque[float](maxlen=_EPISODES), 0
        self._learner = Learner(settings, seed, torch.get_num_threads())
        self._active_actors = ActiveActors(Sampler, settings, seed, deadline)

    def __iter__(self) -> Iterator[Update]:
        return (self._update(number) for number in range(self._updates))

    def _update(self, number: int) -> Update:
        actors, laps = self._schedule.at(number), [time.perf_counter()]
        self._active_actors.grow(actors)
        laps.append(time.perf_counter())
        weights = shared(self._learner.weights())
        calls = [actor.sample.remote(weights) for actor in self._active_actors]
        self._active_actors.order(self._schedule.at(min(number + self._early, self._updates - 1)))
        laps.append(time.perf_counter())
        wait_for(calls, f"the rounds of update {number}", self._deadline)
        laps.append(time.perf_counter())
        sample = self._take(calls, number)
        laps.append(time.perf_counter())
        self._learn(number)
        laps.append(time.perf_counter())
        start, hand_over, out, fetch, learn = (b - a for a, b in pairwise(laps))
        return Update(
            number, actors, start, sample, hand_over + fetch, out - sample, learn,
            laps[-1] - laps[0], self._active_actors.held(), self._active_actors.used(),
        )  # fmt: skip

    def _take(self, calls: Sequence[Any], number: int) -> float:
        """Fetch and join the rounds; returns the actors' mean seconds of acting."""
        what = f"fetching the rounds of update {number}"
        rounds: list[Round] = results(calls, what, self._deadline)
        self._learner.take(rounds)
        for found in rounds:
            self.returns.extend(found.returns)
            self.episodes += len(found.returns)
        return statistics.mean(found.seconds for found in rounds)

    def _learn(self, number: int) -> None:
        self._learner.anneal(1 - number / self._updates)
        self._learner.learn()


def settings_of(options: argparse.Namespace) -> Settings:
    """Pong by default, with the sizes of the command line."""
    sizes = ("envs", "steps", "epochs", "minibatches")
    return replace(
        SETTINGS[f"{options.env}-ale"], **{name: getattr(options, name) for name in sizes}
    )


def store_bytes(settings: Settings, actors: int) -> int:
    """Room for a few rounds of all actors, so that Ray never writes one to disk."""
    return _LEAST_STORE_BYTES + _ROUNDS_KEPT * actors * settings.batch * _ROW_BYTES


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line; options that make no sense end the script with the reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = ",".join(f"{2 * n}:{5 * (n - 1)}" for n in range(1, 9))
    parser.add_argument("--env", choices=("pong", "breakout"), default="pong")
    parser.add_argument("--schedule", default=default, help="actors:update,...")
    parser.add_argument("--count", type=int, default=40, help="how many updates")
    parser.add_argument("--updates", type=Path, help="file for what every update cost, as JSON")
    parser.add_argument("--envs", type=int, default=4, help="environments an actor")
    parser.add_argument("--steps", type=int, default=128, help="steps a round")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--minibatches", type=int, default=4)
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="learner's"
    )
    parser.add_argument(
        "--early", type=int, default=1, help="updates by which actors are asked for early"
    )
    parser.add_argument("--preload", action="store_true", help="import ahead what actors import")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deadline", type=float, default=120.0, help="seconds, of every wait")
    options = parser.parse_args(arguments)
    try:
        options.schedule = parse(options.schedule)
    except ValueError as error:
        parser.error(str(error))
    numbers = [number for _, number in sorted(options.schedule.changes.items())]
    if numbers != sorted(numbers):
        parser.error("--schedule must not fall: Ray's actors are held to the end")
    for name in ("count", "envs", "steps", "epochs", "minibatches", "threads"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1")
    return options


def main() -> None:
    """Run once."""
    options = options_of()
    torch.set_num_threads(options.threads)
    settings, most = settings_of(options), options.schedule.most
    updates = []
    preload = MODULES if options.preload else ()
    with cluster(most, store_bytes(settings, most), preload):
        if preload:
            settle(most)
        run = Run(
            settings, options.schedule, options.count, options.seed, options.deadline, options.early
        )
        for update in run:
            print(line(update), flush=True)
            updates.append(update)
    if options.updates:
        write(updates, options.updates)
    answer(summary(updates), ("ray", "torch", "gymnasium", "ale-py"))


if __name__ == "__main__":
    main()
