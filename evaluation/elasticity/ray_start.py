"""The time from ``actor.remote()`` until a Ray actor with Pong and its network is ready.

``one_s``: one actor alone, in a new process. ``idle_worker_s``: one actor in a process that Ray
started ahead, with Ray imported (at its start Ray starts as many as it has CPUs). ``together_s``:
several actors at once. ``mb_per_actor``: the private memory of each of these. All are medians.

With ``--preload`` all start in processes that Ray started ahead and that have imported whatever the
actor imports, by Ray's setting ``preload_python_modules``; ``one_s`` is of one of these.

``python -m evaluation.elasticity.ray_start --repeats 3 --together 16``
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import ray

from evaluation.baselines.one_file_ppo import SETTINGS, Settings
from evaluation.baselines.ray_cluster import cluster, descendants, process, results, settle
from evaluation.baselines.split_ppo import MODULES, Sampler
from evaluation.baselines.timing import answer

_MOST_IDLE = 64


@dataclass(frozen=True)
class Start:
    """Some actors started at once: seconds until all were ready, and the private MB of each.

    ``fresh``: all of them run in new processes.
    """

    seconds: float
    megabytes: tuple[float, ...]
    fresh: bool


class Starter:
    """Starts actors that reserve no CPU, so that any number fits, and ends them again."""

    def __init__(self, settings: Settings, deadline: float) -> None:
        self._settings, self._deadline = settings, deadline
        self._kind: Any = ray.remote(num_cpus=0)(Sampler)

    def start(self, number: int) -> Start:
        """Start ``number`` actors at once; they have ended when this returns."""
        before, began = descendants(), time.perf_counter()
        made = [self._kind.remote(self._settings, seed) for seed in range(number)]
        what = f"{number} new actors"
        pids: list[int] = results([actor.pid.remote() for actor in made], what, self._deadline)
        seconds = time.perf_counter() - began
        memory = tuple(private_mb(pid) for pid in pids)
        self._end(made, pids)
        return Start(seconds, memory, before.isdisjoint(pids))

    def fresh_and_idle(self, repeats: int) -> tuple[list[float], list[float]]:
        """Start-up seconds of single actors: ``repeats`` in new processes, others in idle ones.

        Idle processes are used first, as many as Ray has.
        """
        fresh: list[float] = []
        idle: list[float] = []
        while len(fresh) < repeats:
            start = self.start(1)
            (fresh if start.fresh else idle).append(start.seconds)
            if len(idle) > _MOST_IDLE:
                raise SystemExit(f"Ray started none of {len(idle)} actors in a new process")
        return fresh, idle

    def _end(self, actors: Sequence[Any], pids: Sequence[int]) -> None:
        # The end of these must not slow the start of the next.
        living = [process(pid) for pid in pids]
        for actor in actors:
            ray.kill(actor)
        for each in living:
            each.wait(self._deadline)


def private_mb(pid: int) -> float:
    """Memory that the process shares with no other, in MB."""
    return float(process(pid).memory_full_info().uss) / 1e6


def measure(starter: Starter, repeats: int, together: int) -> dict[str, float]:
    """All measures; ``idle_worker_s`` is missing if Ray had no idle process."""
    fresh, idle = starter.fresh_and_idle(repeats)
    many = starter.start(together)
    found = {
        "one_s": statistics.median(fresh),
        "together_s": many.seconds,
        "mb_per_actor": statistics.median(many.megabytes),
    }
    return found | ({"idle_worker_s": statistics.median(idle)} if idle else {})


def preloaded(starter: Starter, repeats: int, together: int) -> dict[str, float]:
    """All measures of actors in processes that Ray started ahead."""
    settle(together + repeats)
    many, ones = starter.start(together), [starter.start(1) for _ in range(repeats)]
    if fresh := sum(start.fresh for start in (many, *ones)):
        raise SystemExit(f"Ray started {fresh} times in new processes only")
    return {
        "one_s": statistics.median(one.seconds for one in ones),
        "together_s": many.seconds,
        "mb_per_actor": statistics.median(many.megabytes),
    }


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="of one actor alone")
    parser.add_argument("--together", type=int, default=16, help="how many at once")
    parser.add_argument("--envs", type=int, default=4, help="environments an actor")
    parser.add_argument("--steps", type=int, default=128, help="steps a round")
    parser.add_argument("--cpus", type=int, default=len(os.sched_getaffinity(0)), help="of Ray")
    parser.add_argument("--preload", action="store_true", help="import ahead what actors import")
    parser.add_argument("--deadline", type=float, default=120.0, help="seconds, of every wait")
    options = parser.parse_args()
    settings = replace(SETTINGS["pong-ale"], envs=options.envs, steps=options.steps)
    cpus = options.together + options.repeats if options.preload else options.cpus
    with cluster(cpus, preload=MODULES if options.preload else ()):
        starter = Starter(settings, options.deadline)
        how = preloaded if options.preload else measure
        found = how(starter, options.repeats, options.together)
    answer(found, ("ray", "torch", "gymnasium", "ale-py"))


if __name__ == "__main__":
    main()
