"""Benchmark reports as Markdown, for ``docs/benchmarks.md``.

``python -m evaluation.core.page bench-results/*.json`` prints one section per report.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from evaluation.core.report import Ratio, Report, Row, read_json


def section(report: Report) -> str:
    """One report: its date and machine, the rows, and the ratios with their goals."""
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    head = f"## {report.name.capitalize()}: `artos bench {report.name}`"
    facts = f"{report.date[:16].replace('T', ' ')} UTC. {machine}."
    return "\n\n".join([head, facts, _table(_rows(report.rows)), _table(_ratios(report.ratios))])


def _rows(rows: Iterable[Row]) -> Iterator[tuple[str, ...]]:
    rows = list(rows)
    goals = any(row.goal is not None for row in rows)
    yield "case", "median", "smallest to largest", "unit", "n", *(("goal", "holds") * goals)
    for row in rows:
        verdict = (_goal(row), _HOLDS[row.holds]) * goals
        if row.median is None:
            yield row.case, "absent", row.note, "", "", *verdict
        else:
            spread = f"{_number(row.min)} to {_number(row.max)}"
            yield row.case, _number(row.median), spread, row.unit, str(row.n), *verdict


def _ratios(ratios: Iterable[Ratio]) -> Iterator[tuple[str, ...]]:
    yield "ratio of", "over", "median", "smallest to largest", "goal", "holds"
    for ratio in ratios:
        spread = f"{_number(ratio.min)} to {_number(ratio.max)}"
        verdict = (_goal(ratio), _HOLDS[ratio.holds])
        yield ratio.case, ratio.against, _number(ratio.median), spread, *verdict


_HOLDS = {True: "yes", False: "**no**", None: ""}


def _goal(judged: Row | Ratio) -> str:
    sign = "≥" if judged.bound == "at least" else "≤"
    return "" if judged.goal is None else f"{sign} {judged.goal:g}"


def _table(lines: Iterable[tuple[str, ...]]) -> str:
    head, *body = lines
    rule = ("---",) * len(head)
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *body))


def _number(value: float | None) -> str:
    if value is None:
        return "—"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def main(paths: Iterable[str]) -> int:
    """Print the section of every report."""
    print("\n\n".join(section(read_json(Path(path))) for path in paths))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
