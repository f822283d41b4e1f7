"""Benchmark results: rows, ratios, machine and versions; as a table and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Literal

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evaluation.core.machine import machine, versions

Bound = Literal["at least", "at most"]

OURS = "ARTOS"
"""Name of ARTOS in every case."""
PAPER = "the paper's"
"""Name of what the paper says, in cases that it has figures of."""


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """One case, ``group: contestant``, over the ``n`` repetitions that gave a value.

    A case that could not be measured has ``n`` 0 and no figures. ``note`` says why, also if single
    repetitions gave no value. ``holds``: the median meets the goal or, with ``every``, each
    value does; None without a goal, and where a repetition has no value, which is a goal missed.
    ``values``: those of all repetitions, in order, None where there is none.
    """

    case: str
    unit: str
    median: float | None
    min: float | None
    max: float | None
    n: int
    note: str = ""
    goal: float | None = None
    holds: bool | None = None
    bound: Bound = "at least"
    values: tuple[float | None, ...] = ()
    every: bool = False

    @property
    def group(self) -> str:
        """The group: what was measured."""
        return split(self.case)[0]

    @property
    def contestant(self) -> str:
        """The contestant that was measured."""
        return split(self.case)[1]


class Ratio(msgspec.Struct, frozen=True, omit_defaults=True):
    """``case`` over ``against``, paired by repetition; ``holds`` is that of a ``Row``.

    ``note`` says which of the ways that either is the best of lack values.
    """

    case: str
    against: str
    median: float | None
    min: float | None
    max: float | None
    goal: float | None = None
    holds: bool | None = None
    bound: Bound = "at least"
    note: str = ""


class Report(msgspec.Struct, frozen=True):
    """All results of one run of one benchmark: the content of its JSON file.

    ``times`` has, by case and activity, the seconds that its last repetition spent. ``series`` has,
    by contestant and name, the values of its last repetition in order. ``commit`` is the one that
    was measured, and ``sources`` the digests of what it measured of it (see ``sources.py``).
    ``seconds`` is 0 if it was put together from single runs, and None if nobody noted it. Figures
    of a ``quick`` run mean nothing.
    """

    name: str
    date: str
    rows: list[Row]
    ratios: list[Ratio]
    machine: dict[str, str | int | float]
    versions: dict[str, dict[str, str]]
    times: dict[str, dict[str, float]] = {}
    series: dict[str, dict[str, list[float]]] = {}
    commit: str = ""
    sources: dict[str, str] = {}
    seconds: float | None = None
    quick: bool = False

    def judged(self) -> list[Row | Ratio]:
        """All that may have a goal."""
        return [*self.rows, *self.ratios]


@dataclass
class Results:
    """Collects a benchmark's values in the order of their repetitions; ``report`` sums them up.

    ``repetition`` is the one that is measured. ``kept``: lists of values by name that are no rows.
    """

    name: str
    repeats: int
    repetition: int = 1
    kept: dict[str, list[list[float]]] = field(default_factory=dict)
    machine: dict[str, str | int | float] = field(default_factory=machine)
    _values: dict[str, list[float | None]] = field(default_factory=dict)
    _units: dict[str, str] = field(default_factory=dict)
    _notes: dict[str, str] = field(default_factory=dict)
    _ratios: list[Ratio] = field(default_factory=list)
    _versions: dict[str, dict[str, str]] = field(default_factory=dict)
    _times: dict[str, dict[str, float]] = field(default_factory=dict)
    _goals: dict[str, tuple[float, Bound, bool]] = field(default_factory=dict)
    _ways: dict[str, list[str]] = field(default_factory=dict)
    _series: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, case: str, unit: str, value: float) -> None:
        """Append the value of one repetition."""
        self._units[case] = unit
        self._values.setdefault(case, []).append(value)

    def absent(self, case: str, unit: str, why: str) -> None:
        """Note why a case has no, or no further, values."""
        self._units.setdefault(case, unit)
        self._values.setdefault(case, [])
        self._notes[case] = why

    def remark(self, case: str, note: str) -> None:
        """Say something about a case that has values."""
        self._notes[case] = note

    def missed(self, case: str, unit: str, why: str) -> None:
        """Note that one repetition gave no value; later values keep their positions."""
        self.absent(case, unit, why)
        self._values[case].append(None)

    def used(self, who: str, packages: Mapping[str, str]) -> None:
        """Note the versions a contestant ran with."""
        self._versions.setdefault(who, {}).update(packages)

    def spent(self, case: str, seconds: Mapping[str, float]) -> None:
        """Note how a repetition of a case spent its time."""
        self._times[case] = dict(seconds)

    def followed(self, who: str, series: Mapping[str, Sequence[float]]) -> None:
        """Note a contestant's series of values within one repetition."""
        self._series[who] = {name: list(values) for name, values in series.items()}

    def require(
        self, case: str, goal: float, bound: Bound = "at most", every: bool = False
    ) -> None:
        """Give a case a goal of its own, in its unit; ``every``: of every repetition.

        A case that nothing has measured gets a row, which misses its goal.
        """
        self._goals[case] = (goal, bound, every)
        self._units.setdefault(case, "")
        self._values.setdefault(case, [])

    def median(self, case: str) -> float | None:
        """The median so far; ``None`` without values."""
        return spread(self._values.get(case, ()))[0]

    def over(self, case: str, against: str) -> list[float]:
        """One case over another, for each repetition that gave both."""
        return _known(quotients(self._values.get(case, ()), self._values.get(against, ())))

    def best(self, cases: Iterable[str]) -> str | None:
        """The case with the highest median, of those that have one.

        Its ratios will say which of the others lack values.
        """
        return self._chosen(cases, max)

    def lowest(self, cases: Iterable[str]) -> str | None:
        """The case with the lowest median, of those that have one; otherwise as ``best``."""
        return self._chosen(cases, min)

    def _chosen(self, cases: Iterable[str], choose: Callable[..., str]) -> str | None:
        ways = list(cases)
        found = {case: value for case in ways if (value := self.median(case)) is not None}
        if not found:
            return None
        chosen = choose(found, key=found.__getitem__)
        self._ways[chosen] = ways
        return chosen

    def compare(
        self, case: str, against: str | None, goal: float | None = None, bound: Bound = "at least"
    ) -> None:
        """Add the ratio of two cases; if either has no values, the ratio has no figures."""
        over = against or "no baseline"
        found = quotients(self._values.get(case, ()), self._values.get(over, ()))
        median, low, high = spread(found)
        holds = _holds(found, goal, bound)
        ways = (way for chosen in (case, over) for way in self._ways.get(chosen, ()))
        lacking = [split(way)[1] for way in ways if None in self._values.get(way, ())]
        note = f"not measured in every repetition: {'; '.join(lacking)}" if lacking else ""
        self._ratios.append(Ratio(case, over, median, low, high, goal, holds, bound, note))

    def report(self) -> Report:
        """All rows and ratios so far."""
        rows = [self._row(case) for case in self._values]
        date = datetime.now(UTC).isoformat(timespec="seconds")
        used = {OURS: versions(), **self._versions}
        return Report(
            self.name, date, rows, list(self._ratios), self.machine, used, self._times, self._series
        )

    def _row(self, case: str) -> Row:
        values = tuple(self._values[case])
        unit, note = self._units[case], self._notes.get(case, "")
        median, low, high = spread(values)
        row = Row(case, unit, median, low, high, len(_known(values)), note, values=values)
        if case not in self._goals:
            return row
        goal, bound, every = self._goals[case]
        holds = _holds(values, goal, bound, every)
        return msgspec.structs.replace(row, goal=goal, holds=holds, bound=bound, every=every)


def quotients(mine: Sequence[float | None], theirs: Sequence[float | None]) -> list[float | None]:
    """One value over the other, by repetition; None unless it gave both, the other not being 0."""
    return [a / b if a is not None and b else None for a, b in zip_longest(mine, theirs)]


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _holds(
    values: Sequence[float | None], goal: float | None, bound: Bound, every: bool = False
) -> bool | None:
    known = _known(values)
    if goal is None or not known or len(known) < len(values):
        return None
    judged = known if every else [statistics.median(known)]
    return all(value >= goal if bound == "at least" else value <= goal for value in judged)


def spread(
    values: Iterable[float | None],
) -> tuple[float, float, float] | tuple[None, None, None]:
    """Median, smallest and largest of those there are; None without any."""
    known = _known(values)
    return (statistics.median(known), min(known), max(known)) if known else (None, None, None)


def write_json(report: Report, path: Path) -> None:
    """Write the report, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")


def read_json(path: Path) -> Report:
    """Read a report back.

    Raises:
        msgspec.DecodeError: the file is not a report.
    """
    return msgspec.json.decode(path.read_bytes(), type=Report)


# -- tables ------------------------------------------------------------------------------------


def print_table(report: Report, console: Console | None = None) -> None:
    """Print rows, ratios and the machine."""
    console = console or Console()
    console.print(_rows_table(report))
    if report.ratios:
        table = _table(
            "ratios, paired by repetition", "who", "ratio", "min – max", "goal", "holds", "over"
        )
        for group, members in groupby(report.ratios, lambda ratio: split(ratio.case)[0]):
            table.add_section()
            table.add_row(group, style="bold")
            for ratio in members:
                span = f"{number(ratio.min)} – {number(ratio.max)}"
                over, against = split(ratio.against)
                other = "" if over in {"", group} else f"{over}: "
                who = f"  {split(ratio.case)[1]}"
                table.add_row(who, number(ratio.median), span, *_verdict(ratio), other + against)
        console.print(table)
    for said in report.judged():
        if said.note and said.median is not None:
            console.print(f"[yellow]{escape(said.case)}: {escape(said.note)}[/yellow]")
    for case, seconds in report.times.items():
        spent = ", ".join(f"{name} {value:.1f} s" for name, value in seconds.items())
        console.print(f"[dim]time of {case}: {spent}[/dim]", highlight=False)
    facts = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    if report.seconds:
        facts += f", took {report.seconds / 60:.0f} min"
    console.print(f"[dim]{facts}[/dim]", highlight=False)


def _rows_table(report: Report) -> Table:
    goals = ("goal", "holds") if any(row.goal is not None for row in report.rows) else ()
    title = f"{report.name} (median, spread)"
    table = _table(title, "who", "median", "min – max", "unit", "n", *goals)
    for group, rows in grouped(report.rows):
        table.add_section()
        table.add_row(group, style="bold")
        for row in rows:
            verdict = _verdict(row) if goals else ()
            colour = "cyan" if row.contestant.startswith(OURS) else ""
            table.add_row(*_cells(row), *verdict, style=colour if row.n else "yellow")
    return table


def _cells(row: Row) -> tuple[str, ...]:
    if row.n == 0:
        return f"  {row.contestant}", "absent", row.note, row.unit, "0"
    spread = f"{number(row.min)} – {number(row.max)}"
    return f"  {row.contestant}", number(row.median), spread, row.unit, str(row.n)


def _verdict(judged: Row | Ratio) -> tuple[str, str]:
    word = holds(judged)
    colour = "green" if word == "yes" else "red"
    return goal(judged) or "–", f"[{colour}]{word}" if word else "–"


def goal(judged: Row | Ratio) -> str:
    """The goal as tables show it, such as ``≤ 2`` or ``each ≤ 2``; empty without one."""
    if judged.goal is None:
        return ""
    each = "each " * (isinstance(judged, Row) and judged.every)
    return f"{each}{_SIGNS[judged.bound]} {judged.goal:g}"


def holds(judged: Row | Ratio) -> str:
    """Whether the goal is met, in a word; empty without one. All but ``yes`` is a goal missed."""
    if judged.goal is None:
        return ""
    unknown = "not measured" if judged.median is None else "incomplete"
    return {True: "yes", False: "no", None: unknown}[judged.holds]


def missed(report: Report) -> int:
    """The number of goals that are not met, those included that could not be judged."""
    return sum(holds(each) not in {"", "yes"} for each in report.judged())


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title)
    for name in columns:
        table.add_column(name, justify="left" if name in {"who", "unit", "over"} else "right")
    return table


def grouped(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Rows by group, in the order in which groups first appear."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.group, []).append(row)
    return list(found.items())


def split(case: str) -> tuple[str, str]:
    """Split ``group: contestant`` in two."""
    group, _, contestant = case.rpartition(": ")
    return group, contestant


_SIGNS: Mapping[Bound, str] = {"at least": "≥", "at most": "≤"}


def number(value: float | None) -> str:
    """A figure with about three significant digits; a dash for None."""
    if value is None:
        return "–"
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 4
    return f"{value:,.{digits}f}"
