"""Learning curves of several seeds as bands, and where two of them agree. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import mean, median

PARTS = 10
Curve = Sequence[float]
_OF_SEEDS: Mapping[str, Callable[[Curve], float]] = {
    "lowest": min, "mean": mean, "median": median, "highest": max,
}  # fmt: skip


def parts(steps: Sequence[float], returns: Sequence[float], total: int, low: float) -> list[float]:
    """The mean return of the episodes that ended in each tenth of a run of ``total`` steps.

    A part in which no episode ended counts as the part before it, at first as ``low``.
    """
    found: list[float] = []
    for number in range(PARTS):
        first, last = total * number / PARTS, total * (number + 1) / PARTS
        inside = [r for s, r in zip(steps, returns, strict=True) if first < s <= last]
        found.append(sum(inside) / len(inside) if inside else (found or [low])[-1])
    return found


def reached(curve: Curve, bar: float, total: int) -> float:
    """Steps of a run of ``total`` after which a curve is at ``bar`` for the first time.

    Means count for the middle of their part, and lie on a line between two. Infinite for a curve
    that is never there.
    """
    length, before = total / len(curve), curve[0]
    for number, value in enumerate(curve):
        if value >= bar:
            share = (bar - before) / (value - before) if number else 1.0
            return length * (number - 0.5 + share)
        before = value
    return math.inf


def band(curves: Sequence[Curve]) -> Mapping[str, list[float]]:
    """``lowest``, ``mean``, ``median`` and ``highest`` of all seeds in each part."""
    columns = [*zip(*curves, strict=True)]
    return {name: [of(each) for each in columns] for name, of in _OF_SEEDS.items()}


def kept_up(ours: Sequence[Curve], theirs: Sequence[Curve]) -> float:
    """The share of parts in which the bands overlap, or ours lies above.

    Of five seeds each from one and the same learner ours lies below in 1 of 252 parts. That each
    median is within the other's band would hold in 5 of 7 only, so no learner could do so in all.
    """
    highest, lowest = band(ours)["highest"], band(theirs)["lowest"]
    abreast = [high >= low for high, low in zip(highest, lowest, strict=True)]
    return sum(abreast) / len(abreast)


def gained(curves: Sequence[Curve], low: float) -> float:
    """The mean of whole curves, of all seeds, beyond the lowest return."""
    means = band(curves)["mean"]
    return sum(means) / len(means) - low
