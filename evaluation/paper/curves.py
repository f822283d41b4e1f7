"""A learning curve against the clock, and when it reaches a bar."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from evaluation.baselines.timing import answer

EPISODES = 20
"""Episodes from which a mean return counts; the mean is of the last 100."""


class Point(NamedTuple):
    """Where a run was: all since its start, CPU and device in seconds held and used."""

    seconds: float
    steps: float
    updates: float
    episodes: float
    mean_return: float
    held_cpu_s: float
    used_cpu_s: float
    held_device_s: float
    used_device_s: float


COSTS = Point._fields[5:]


def counted(points: Sequence[Point]) -> list[Point]:
    """Those with enough episodes for their mean return to count."""
    return [point for point in points if point.episodes >= EPISODES]


def at_bar(points: Sequence[Point], bar: float) -> Point | None:
    """The first point at which the mean return is not below the bar."""
    return next((point for point in counted(points) if point.mean_return >= bar), None)


def rates(points: Sequence[Point], bar: float, limit: float) -> dict[str, float]:
    """``time_s``, ``steps``, ``updates`` and the costs to the bar.

    Of a run that did not reach it ``time_s`` is the ``limit``, which is less than it would have
    taken, and the others are absent. ``best``: the highest mean return; ``update_s``: the seconds
    of the whole run for each update.
    """
    returns = [point.mean_return for point in counted(points)]
    last, reached = points[-1], at_bar(points, bar)
    found = {"update_s": last.seconds / max(1.0, last.updates)}
    found |= {"best": max(returns)} if returns else {}
    if reached is None:
        return {**found, "time_s": limit}
    found |= {name: getattr(reached, name) for name in COSTS}
    return {**found, "time_s": reached.seconds, "steps": reached.steps, "updates": reached.updates}


def write(points: Sequence[Point], path: Path) -> None:
    """Write the points as JSON."""
    path.write_text(json.dumps(points))


def read(path: Path) -> list[Point]:
    """Read the points back."""
    return [Point(*values) for values in json.loads(path.read_text())]


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """The command line of both sides' scripts, but for what says how to train."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bar", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--curve", type=Path)
    return parser


def tell(points: Sequence[Point], options: argparse.Namespace, packages: Sequence[str]) -> None:
    """Write the curve if that was asked for, and answer with its rates."""
    if options.curve:
        write(points, options.curve)
    answer(rates(points, options.bar, options.seconds), packages)
