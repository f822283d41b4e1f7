"""SAC with Ray actors that sample while the driver learns: the costs of a run.

The driver is the learner and has the replay buffer. Its actors hold their CPU to the end. Each is
asked for its next round before the driver learns from the last one, so neither waits for the other
as long as both have work.

``python -m evaluation.sharing.ray_sac --total-steps 3000 --actors 2 --ratio 64 --after 500``
answers with ``update_s`` (mean, from the first action to the last update), ``run_s`` (with the
start of the actors), ``held_cpu_s``, ``used_cpu_s``, ``seconds.learn`` and ``return``, the mean of
the last ten episodes.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import torch

from evaluation.baselines.ray_actors import ActiveActors, shared
from evaluation.baselines.ray_cluster import cluster, first_of, results
from evaluation.baselines.split_sac import Learner, Round, Sampler, Settings
from evaluation.baselines.timing import answer

_STORE_BYTES, _EPISODES = 256 << 20, 10


class Run:
    """A learner and its actors, each of which has a round under way.

    ``parts`` are the classes of the learner and of what samples; ``returns`` those of the last
    episodes.
    """

    def __init__(
        self, settings: Settings, actors: int, seed: int, deadline: float,
        parts: tuple[Any, type] | None = None, episodes: int = _EPISODES,
    ) -> None:  # fmt: skip
        learner, sampler = parts or (Learner, Sampler)
        self._settings, self._actors, self._deadline = settings, actors, deadline
        self._learner: Any = learner(settings, seed)
        self._active_actors = ActiveActors(sampler, settings, seed, deadline)
        self._under_way: dict[Any, Any] = {}
        self._asked = self._taken = self._episodes = 0
        self.learned_s = 0.0
        self.returns: deque[float] = deque(maxlen=episodes)

    def measure(self, over: Callable[[Run], bool] = lambda run: False) -> dict[str, float]:
        """Train to the end, or until it is ``over``; returns the measures."""
        began = time.perf_counter()
        self._active_actors.grow(self._actors)
        acting = time.perf_counter()
        self._share()
        for actor in self._active_actors:
            self._ask(actor)
        while self._under_way and not over(self):
            self._ask(self._take())
            self._learn()
        ended = time.perf_counter()
        return {
            "run_s": ended - began,
            "update_s": (ended - acting) / max(1, self._learner.updates),
            "held_cpu_s": self._active_actors.held(),
            "used_cpu_s": self._active_actors.used(),
            "seconds.learn": self.learned_s,
            "updates": self._learner.updates,
            "return": statistics.mean(self.returns or [0.0]),
        }

    def told(self) -> tuple[float, float, float, float, float, float]:
        """Steps, updates, episodes and their mean return; CPU-seconds held and used."""
        mean = statistics.mean(self.returns) if self.returns else -math.inf
        held, used = self._active_actors.held(), self._active_actors.used()
        return self._taken, self._learner.updates, self._episodes, mean, held, used

    def _share(self) -> None:
        self._version, self._weights = self._learner.updates, shared(self._learner.weights())

    def _ask(self, actor: Any) -> None:
        """Have an actor sample its next round with the newest weights, if there is one to do."""
        if self._asked >= self._settings.total_steps:
            return
        random = self._asked < self._settings.after
        call = actor.sample.remote(self._weights, self._version, random=random)
        self._under_way[call] = actor
        self._asked += self._settings.steps

    def _take(self) -> Any:
        """Store the round that is done first; returns the actor that made it."""
        call = first_of([*self._under_way], "a round", self._deadline)
        found: list[Round] = results([call], "fetching a round", self._deadline)
        self._learner.replay.add(found[0].rows)
        self.returns.extend(found[0].returns)
        self._episodes += len(found[0].returns)
        self._taken += self._settings.steps
        return self._under_way.pop(call)

    def _learn(self) -> None:
        """Make all updates that are due."""
        began = time.perf_counter()
        while self._learner.updates < self._settings.updates(self._taken):
            self._learner.learn()
            if self._learner.updates % self._settings.sync == 0:
                self._share()
        self.learned_s += time.perf_counter() - began


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line; every number of ``Settings`` is an option."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default=Settings.env)
    for field in fields(Settings):
        if isinstance(field.default, int | float):
            name = "--" + field.name.replace("_", "-")
            parser.add_argument(name, type=type(field.default), default=field.default)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="learner's")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deadline", type=float, default=120.0, help="seconds, of every wait")
    options = parser.parse_args(arguments)
    for name in ("total_steps", "steps", "batch", "sync", "after", "actors", "threads"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    return options


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings of a command line."""
    names = (field.name for field in fields(Settings))
    return Settings(**{name: getattr(options, name) for name in names if hasattr(options, name)})


def main() -> None:
    """Run once."""
    options = options_of()
    torch.set_num_threads(options.threads)
    with cluster(options.actors, _STORE_BYTES):
        run = Run(settings_of(options), options.actors, options.seed, options.deadline)
        measures = run.measure()
    answer(measures, ("ray", "torch", "gymnasium"))


if __name__ == "__main__":
    main()
