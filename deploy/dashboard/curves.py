"""Learning curves: of each run, and of runs that differ by their seed with their spread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from artos.errors import Refused
from deploy.figures.common_part import Floats, common_part
from deploy.figures.read_run import ReadRun, labels
from head.records import evaluations
from head.records.episodes import Episodes
from head.records.evaluations import Evaluated
from head.records.place import UPDATES, place
from head.records.progress_log import Row, read_history

RETURN = "return"
"""The mean return of the last 100 episodes, at each; other curves are columns of progress.csv."""
_RATES = {
    "held/cpus": "usage/cpu_seconds_held", "used/cpus": "usage/cpu_seconds_used",
    "held/devices": "usage/device_seconds_held", "used/devices": "usage/device_seconds_used",
    "waiting/slot": "usage/waits/slot", "waiting/device": "usage/waits/device",
}  # fmt: skip
"""Curves of how many are held, used or waited for at a time: by how much these seconds grow."""
_COUNTED = 0.9
"""Seconds within which each node of a run counts these anew, or hardly longer."""
_POINTS = 400
_ACROSS = ("steps", "seconds", "updates")


class Curve(msgspec.Struct, frozen=True):
    """A curve; ``name`` is that of its run. ``group`` is that of runs that differ by their seed."""

    name: str
    group: str
    x: list[float]
    y: list[float]


class Spread(msgspec.Struct, frozen=True):
    """The mean of the curves of a group, as far as all of them go."""

    name: str
    runs: int
    seeds: int
    """How many of their seeds differ."""
    x: list[float]
    mean: list[float]
    low: list[float]
    """The lowest of them."""
    high: list[float]
    """The highest of them."""


class Curves(msgspec.Struct, frozen=True):
    """Curves of runs, ``what`` over ``across``; ``columns`` are what else there is.

    Over steps, of runs that make none, as they have no actors, they are over updates.
    """

    what: str
    across: str
    curves: list[Curve]
    groups: list[Spread]
    evaluations: dict[str, list[tuple[float, float, float]]]
    """By run: where each was, its mean return, and the standard deviation of its returns."""
    columns: list[str]
    faults: dict[str, str]
    """By run, why there is no curve of it."""
    copying: int = 0
    """Of so many runs more is on its way from the head: ask again."""


def curves(folders: Mapping[str, Path], what: str = RETURN, across: str = "steps") -> Curves:
    """The curves of these runs.

    Raises:
        Refused: there is no such axis, or no run has such a column.
    """
    if across not in _ACROSS:
        raise Refused([f"curves are drawn over {', '.join(_ACROSS)}, not {across!r}"])
    drawn: dict[str, tuple[ReadRun, list[float], list[float]]] = {}
    played: dict[str, list[tuple[float, float, float]]] = {}
    columns: set[str] = {RETURN}
    named: set[str] = set()
    made: list[float] = []
    faults: dict[str, str] = {}
    for name, folder in folders.items():
        try:
            history = [*_with_rates(read_history(folder / "progress.csv"))]
            for row in history[-1:]:
                named.update(row)
                columns |= {column for column, cell in row.items() if _is_number(cell)}
            rates = {rate for row in history for rate in _RATES if rate in row}
            named, columns = named | rates, columns | rates
            last = [row for row in history[-1:] if _is_number(row.get("steps"))]
            # One that has just begun may make steps yet.
            made += [float(row["steps"]) for row in last if row.get(UPDATES) not in (None, "0")]
            x, y = _points(folder, history, what, across)
            kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), _POINTS)).astype(np.int64))
            run = ReadRun(folder)
            _ = run.asked  # refuses what is no run here, where the others go on
            drawn[name] = run, x[kept].tolist(), y[kept].tolist()
            if what == RETURN:
                found = evaluations.read(folder / "evaluations.csv")
                places = _evaluated_at(history, across, found)
                played[name] = [
                    (at, each.mean_return, each.std)
                    for at, each in zip(places.tolist(), found, strict=False)
                ]
        except (Refused, OSError, ValueError) as error:
            faults[name] = str(error)
    if named and what not in named | {RETURN}:
        raise Refused([f"no run has {what!r}; there are {', '.join(sorted(columns))}"])
    groups_of = labels([run.settings for run, _, _ in drawn.values()])
    lines = [
        Curve(name, group, x, y)
        for (name, (_, x, y)), group in zip(drawn.items(), groups_of, strict=True)
    ]
    by_group: dict[str, list[Curve]] = {}
    for curve in lines:
        if curve.x:
            by_group.setdefault(curve.group, []).append(curve)
    groups = [
        _spread(name, members, len({drawn[curve.name][0].asked.seed for curve in members}))
        for name, members in sorted(by_group.items())
    ]
    played = {name: each for name, each in played.items() if each}
    below = UPDATES if across == "steps" and made and not any(made) else across
    return Curves(what, below, lines, groups, played, sorted(columns), faults)


def _with_rates(history: Iterable[Row]) -> Iterator[Row]:
    """The rows, those for which seconds were counted anew with the columns of ``_RATES``."""
    before = dict.fromkeys(("seconds", *_RATES.values()), 0.0)
    last: list[float | None] = []
    for row in history:
        now = {name: float(row[name]) for name in before if _is_number(row.get(name))}
        passed = now.get("seconds", 0.0) - before["seconds"]
        counted = [now.get(column) for column in _RATES.values()]
        is_new, last = counted != last, counted
        if not is_new or 0 <= passed < _COUNTED:
            yield row
            continue
        yield row | {
            rate: f"{(now[column] - before[column]) / passed:.6g}"
            for rate, column in _RATES.items()
            if passed > 0 and now.get(column, -1.0) >= before[column]
        }
        before |= now


def _points(folder: Path, history: list[Row], what: str, across: str) -> tuple[Floats, Floats]:
    if what == RETURN:
        episodes = Episodes.read(folder / "episodes.csv")
        x = _other(history, "steps", across, episodes.steps)
        return x, episodes.running_mean()[: len(x)]
    rows = [row for row in history if _is_number(row.get(what)) and _is_number(row.get(across))]
    x, updates = _column(rows, across), _column(rows, UPDATES)
    return _placed(x, updates) if across == "steps" else x, _column(rows, what)


def _evaluated_at(history: list[Row], across: str, found: list[Evaluated]) -> Floats:
    """Where evaluations stand: an update is one of a run without actors, too, a step is not."""
    updates = np.array([each.updates for each in found], np.float64)
    if across == "steps":
        return _placed(np.array([each.steps for each in found], np.float64), updates)
    return _other(history, UPDATES, across, updates)


def _placed(steps: Floats, updates: Floats) -> Floats:
    """Where rows and evaluations stand over steps, as on figures and in trackers."""
    both = zip(steps.astype(int).tolist(), updates.astype(int).tolist(), strict=True)
    return np.array([place(*each) for each in both], np.float64)


def _other(history: list[Row], known: str, across: str, at: Floats) -> Floats:
    """Where these places of one axis are on another, by the rows of progress; nothing without any.

    What several rows tell of, as of the last step of a run that goes on without actors, stands
    where the first of them does.
    """
    if across == known:
        return at
    rows = [row for row in history if _is_number(row.get(known)) and _is_number(row.get(across))]
    places, other = ([0.0, *_column(rows, name)] for name in (known, across))
    return np.interp(np.nextafter(at, -np.inf), places, other) if rows else np.empty(0)


def _column(rows: list[Row], name: str) -> Floats:
    return np.array([float(row[name]) for row in rows], np.float64)


def _is_number(cell: Any) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except (TypeError, ValueError):
        return False


def _spread(name: str, curves: list[Curve], seeds: int) -> Spread:
    x, found = common_part([(np.array(each.x), np.array(each.y)) for each in curves], _POINTS // 2)
    mean, low, high = found.mean(0), found.min(0), found.max(0)
    return Spread(name, len(curves), seeds, x.tolist(), mean.tolist(), low.tolist(), high.tolist())
