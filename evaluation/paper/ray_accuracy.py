"""One run of PPO or SAC with Ray's core until its mean return reaches a bar.

``python -m evaluation.paper.ray_accuracy --bar 5 --seconds 600 ppo --env breakout --schedule 4:0``
answers with the rates of ``evaluation.paper.curves``. The words after ``ppo`` are those of
``elasticity.ray_adaptive``, after ``sac`` those of ``sharing.ray_sac``; its environment is one with
pictures and discrete actions. The clock begins with the command, as ours does; it stands still
while Ray's cluster starts, as one usually stands already.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Iterator, Sequence

import torch

from evaluation.baselines import split_pictures_sac
from evaluation.baselines.ray_cluster import cluster, process
from evaluation.elasticity import ray_adaptive
from evaluation.paper.curves import Point, at_bar, parser_of, tell
from evaluation.sharing import ray_sac

_SAC_STORE, _EPISODES, _LOOK_SECONDS = 512 << 20, 100, 0.5


class Clock:
    """Seconds since this process began, without those in which the cluster started."""

    def __init__(self) -> None:
        self._began: float = process(os.getpid()).create_time()
        self._asked = time.time()

    def cluster_stands(self) -> None:
        """Go on; it has stood still since it was made."""
        self._began += time.time() - self._asked

    def __call__(self) -> float:
        """The seconds."""
        return time.time() - self._began


def _mean(returns: Sequence[float]) -> float:
    return statistics.mean(returns) if returns else float("-inf")


def ppo(words: Sequence[str]) -> Iterator[Point]:
    """A point after every update. The learner has its device from the start on."""
    options = ray_adaptive.options_of(words)
    torch.set_num_threads(options.threads)
    settings, most = ray_adaptive.settings_of(options), options.schedule.most
    clock = Clock()
    with cluster(most, ray_adaptive.store_bytes(settings, most)):
        clock.cluster_stands()
        run = ray_adaptive.Run(
            settings, options.schedule, options.count, options.seed, options.deadline
        )
        steps, learned, episodes = 0, 0.0, 0
        for update in run:
            now = clock()
            steps += update.actors * settings.batch
            learned += update.learn
            episodes = run.episodes
            yield Point(
                now, steps, update.update + 1, episodes, _mean(run.returns), update.held,
                update.used, now, learned,
            )  # fmt: skip


def sac(words: Sequence[str], bar: float, seconds: float) -> list[Point]:
    """Points of half a second."""
    options = ray_sac.options_of(words)
    torch.set_num_threads(options.threads)
    parts = (split_pictures_sac.Learner, split_pictures_sac.Sampler)
    points: list[Point] = []
    clock = Clock()
    with cluster(options.actors, _SAC_STORE):
        clock.cluster_stands()

        def point(run: ray_sac.Run) -> Point:
            now = clock()
            return Point(now, *run.told(), now, run.learned_s)

        def over(run: ray_sac.Run) -> bool:
            now = clock()
            if not points or now - points[-1].seconds > _LOOK_SECONDS:
                points.append(point(run))
            return now > seconds or at_bar(points[-1:], bar) is not None

        run = ray_sac.Run(
            ray_sac.settings_of(options), options.actors, options.seed, options.deadline, parts,
            _EPISODES,
        )  # fmt: skip
        run.measure(over)
        points.append(point(run))
    return points


def main() -> None:
    """Measure once."""
    parser = parser_of(__doc__)
    parser.add_argument("algorithm", choices=("ppo", "sac"))
    parser.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    points: list[Point] = []
    if options.algorithm == "ppo":
        for point in ppo(options.words):
            points.append(point)
            if point.seconds > options.seconds or at_bar([point], options.bar):
                break
    else:
        points = sac(options.words, options.bar, options.seconds)
    tell(points, options, ("ray", "torch", "gymnasium", "ale-py"))


if __name__ == "__main__":
    main()
