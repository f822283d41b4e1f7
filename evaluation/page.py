"""Benchmark reports as Markdown, for ``docs/benchmarks.md``.

``python -m evaluation.page bench-results/*.json`` prints a section per report.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from evaluation.report import Ratio, Report, Row, read_json


def section(report: Report) -> str:
    """One report: its date and machine, the rows, and the ratios with their goals."""
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    head = f"## {report.name.capitalize()}: `artos bench {report.name}`"
    facts = f"{report.date[:16].replace('T', ' ')} UTC. {machine}."
    return "\n\n".join([head, facts, _table(_rows(report.rows)), _table(_ratios(report.ratios))])


def _rows(rows: Iterable[Row]) -> Iterator[tuple[str, ...]]:
    yield "case", "median", "smallest to largest", "unit", "n"
    for row in rows:
        if row.median is None:
            yield row.case, "absent", row.note, "", ""
        else:
            spread = f"{_number(row.min)} to {_number(row.max)}"
            yield row.case, _number(row.median), spread, row.unit, str(row.n)


def _ratios(ratios: Iterable[Ratio]) -> Iterator[tuple[str, ...]]:
    yield "ratio of", "over", "median", "smallest to largest", "goal", "holds"
    for ratio in ratios:
        sign = "≥" if ratio.bound == "at least" else "≤"
        goal = "" if ratio.goal is None else f"{sign} {ratio.goal:g}"
        holds = {True: "yes", False: "**no**", None: ""}[ratio.holds]
        spread = f"{_number(ratio.min)} to {_number(ratio.max)}"
        yield ratio.case, ratio.against, _number(ratio.median), spread, goal, holds


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
