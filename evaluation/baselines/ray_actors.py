"""Ray actors that sample, and the CPU-seconds that they hold and use."""

from __future__ import annotations

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
        self._since: list[float] = []
        self._processes: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        return iter(self._actors)

    def grow(self, number: int) -> None:
        """Create the actors missing up to ``number``, all at once; wait until they are ready."""
        new = range(len(self._actors), number)
        self._since += [time.perf_counter()] * len(new)
        made = [self._kind.remote(self._settings, self._seed + actor) for actor in new]
        pids = results([a.pid.remote() for a in made], f"{len(made)} new actors", self._deadline)
        self._actors += made
        self._processes += [process(pid) for pid in pids]

    def held(self) -> float:
        """CPU-seconds reserved so far."""
        now = time.perf_counter()
        return sum(now - since for since in self._since)

    def used(self) -> float:
        """CPU-seconds used so far, imports and set-up included."""
        return sum(sum(each.cpu_times()[:2]) for each in self._processes)


def shared(weights: Mapping[str, Any]) -> Any:
    """Ray's reference to weights that any number of actors may be given."""
    return ray.put(weights)
