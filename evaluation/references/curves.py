"""Learning curves of several seeds as bands, and where two bands overlap. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PARTS = 10
Curve = Sequence[float]


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

    Means count for the middle of their part, and lie on a line between two. A curve that never is
    there counts as the whole run.
    """
    length, before = total / len(curve), curve[0]
    for number, value in enumerate(curve):
        if value >= bar:
            share = (bar - before) / (value - before) if number else 1.0
            return length * (number - 0.5 + share)
        before = value
    return float(total)


def band(curves: Sequence[Curve]) -> Mapping[str, list[float]]:
    """``lowest``, ``mean`` and ``highest`` of all seeds in each part."""
    columns = [*zip(*curves, strict=True)]
    return {
        "lowest": [min(each) for each in columns],
        "mean": [sum(each) / len(each) for each in columns],
        "highest": [max(each) for each in columns],
    }


def overlap(one: Sequence[Curve], other: Sequence[Curve]) -> float:
    """The share of parts in which the bands of both, from lowest to highest, overlap."""
    mine, theirs = band(one), band(other)
    meets = [
        low <= their_high and their_low <= high
        for low, high, their_low, their_high in zip(
            mine["lowest"], mine["highest"], theirs["lowest"], theirs["highest"], strict=True
        )
    ]
    return sum(meets) / len(meets)
