"""Ray actors that sample, and the CPU-seconds that they hold and use.

Each reserves one of Ray's CPUs, of which Ray may be given more than there are cores. More actors
than cores hold all cores, and no more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

import ray

from evaluation.baselines.ray_cluster import process, results


class ActiveActors:
    """The actors, each of which has one of Ray's CPUs from the moment it is asked for.

    ``kind`` is the class that they run, made from ``settings`` and a seed of its own for each; its
    ``pid`` answers once everything is built.
    """

    def __init__(self, kind: type, settings: object, seed: int, deadline: float) -> None:
        self._settings, self._seed, self._deadline = settings, seed, deadline
        self._kind: Any = ray.remote(num_cpus=1)(kind)
        self._actors: list[Any] = []
        self._ordered: list[tuple[Any, Any]] = []
        self._since: list[float] = []
        self._processes: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        return iter(self._actors)

    def order(self, number: int) -> None:
        """Have Ray create the actors missing up to ``number``, all at once; do not wait for it."""
        new = range(len(self._since), number)
        self._since += [time.perf_counter()] * len(new)
        made = [self._kind.remote(self._settings, self._seed + actor) for actor in new]
        self._ordered += [(actor, actor.pid.remote()) for actor in made]

    def grow(self, number: int) -> None:
        """Wait until there are ``number`` actors, those that were ordered and others."""
        self.order(number)
        calls = [call for _, call in self._ordered]
        pids = results(calls, f"{len(calls)} new actors", self._deadline)
        self._actors += [actor for actor, _ in self._ordered]
        self._ordered.clear()
        self._processes += [process(pid) for pid in pids]

    def held(self) -> float:
        """CPU-seconds reserved so far, of the cores that there are; nothing is given back."""
        now, cores = time.perf_counter(), len(os.sched_getaffinity(0))
        return sum(now - since for since in self._since[:cores])

    def used(self) -> float:
        """CPU-seconds used so far, imports and set-up included."""
        return sum(sum(each.cpu_times()[:2]) for each in self._processes)


def shared(weights: Mapping[str, Any]) -> Any:
    """Ray's reference to weights that any number of actors may be given."""
    return ray.put(weights)
