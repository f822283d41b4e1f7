"""Published results: the JSON in ``evaluation/results/``, and the tables made from it.

``python -m evaluation.core.publish [bench-results/NAME.json ...]`` publishes these reports with
their figures, and writes the tables of ``README.md`` and ``docs/benchmarks.md`` again. Without
reports it only does the latter, to mark figures that a change of the code has made outdated.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from artos.errors import Refused
from evaluation.core.readme_rows import LINES, RESULTS, Line, lines
from evaluation.core.registry import BENCHMARKS
from evaluation.core.report import (
    PAPER,
    Ratio,
    Report,
    Row,
    goal,
    holds,
    quotients,
    read_json,
    spread,
    write_json,
)
from evaluation.core.sources import ROOT, changed

README, PAGE = ROOT / "README.md", ROOT / "docs" / "benchmarks.md"
FIGURES = ROOT / "docs" / "figures"
ENOUGH = 3
"""Repetitions from which a median says something."""
_WIDE = 1.5
"""Largest over smallest ratio from which both are told."""

Reports = Mapping[str, Report]


def published() -> dict[str, Report]:
    """All published reports, by name."""
    return {path.stem: read_json(path) for path in sorted(RESULTS.glob("*.json"))}


def is_older(report: Report) -> bool:
    """Whether what was measured differs from what is here now."""
    return bool(changed(report.sources, BENCHMARKS[report.name].measures) or not report.sources)


# -- README ------------------------------------------------------------------------------------


def readme_table(chosen: Iterable[Line], reports: Reports) -> str:
    """The README's table, with a mark at each row of older code or of few repetitions.

    Raises:
        Refused: figures that no published report has; lists them all.
    """
    rows, notes, faults = [], set[str](), list[str]()
    chosen = tuple(chosen)
    for line in chosen:
        report = reports.get(line.benchmark)
        found = [_figure(line, figure, report) for figure in line.figures] if report else []
        known = [text for text in found if text is not None]
        if report is None or len(known) < len(line.figures):
            absent = [f for f, text in zip(line.figures, found, strict=False) if text is None]
            faults.append(
                f"README, {line.measured!r}: {line.benchmark}.json lacks {absent or 'everything'}: "
                f"publish a report that has it, or change {LINES.name}"
            )
            continue
        cases = {case for figure in line.figures for case in _cases(line, figure, report)}
        repetitions = min(row.n for row in report.rows if row.case in cases)
        marks = [_OLDER] * is_older(report) + [_FEW] * (repetitions < ENOUGH)
        notes.update(marks)
        result = " ".join((line.result.format(*known), *marks))
        on = f"{_model(str(report.machine['cpu']))}, {_short(report.commit)}"
        rows.append((line.measured, result, f"`artos bench {line.benchmark}` ({on})"))
    if faults:
        raise Refused(faults)
    shown = {line.benchmark for line in chosen}
    reports = {name: report for name, report in reports.items() if name in shown}
    machines = {f"{r.machine['cores']} cores" for r in reports.values()}
    dates = sorted(report.date[:10] for report in reports.values())
    span = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    measured = f"measured on {', '.join(sorted(machines))}, {span}"
    table = _table([(measured, "result", "reproduce"), *rows])
    said = [f"{mark} {_NOTES[mark]}" for mark in _NOTES if mark in notes]
    return "\n\n".join([table, *said])


def _model(cpu: str) -> str:
    """``Intel Xeon`` of ``Intel(R) Xeon(R) Processor``."""
    return " ".join(re.sub(r"\(R\)|Processor|CPU|@.*", "", cpu).split())


def _short(commit: str) -> str:
    """A commit as people write it; ``+`` tells that there were changes beside it."""
    return commit[:7] + "+" * commit.endswith("+")


_OLDER, _FEW = "†", "‡"
_NOTES = {
    _OLDER: "Measured on older code: what the benchmark measures has changed since.",
    _FEW: f"Fewer than {ENOUGH} repetitions.",
}


def _cases(line: Line, figure: tuple[str, ...], report: Report) -> tuple[str, ...]:
    case, *others = [line.group + name if name.startswith(":") else name for name in figure]
    return case, *(_chosen(case, other, report) for other in others)


def _chosen(case: str, rival: str, report: Report) -> str:
    """The rival's way that the benchmark compared with: of several the best of those judged."""
    ratios = [
        ratio
        for ratio in report.ratios
        if ratio.case == case
        and ratio.median is not None
        and f"{ratio.against}, ".startswith(f"{rival}, ")
    ]
    if not ratios or any(ratio.against == rival for ratio in ratios):
        return rival
    judged = [ratio for ratio in ratios if ratio.goal is not None] or ratios
    medians = {row.case: row.median or 0.0 for row in report.rows}
    best = max if judged[0].bound == "at least" else min
    return best((ratio.against for ratio in judged), key=medians.__getitem__)


def _figure(line: Line, figure: tuple[str, ...], report: Report) -> str | None:
    """A figure as text; None if the report does not have it."""
    rows = {row.case: row for row in report.rows}
    cases = _cases(line, figure, report)
    if not rows.keys() >= {*cases}:
        return None
    first, last = rows[cases[0]], rows[cases[-1]]
    return _with_unit(first) if len(cases) == 1 else _ratio(first, last, report)


def _with_unit(row: Row) -> str | None:
    if row.median is None:
        return None
    short = row.unit == "s" and row.median < 0.1
    return (
        f"{_number(row.median * 1e3)} ms" if short else f"{_number(row.median)} {row.unit}".rstrip()
    )


def _ratio(row: Row, other: Row, report: Report) -> str | None:
    """As the report has it; else by repetition; else of medians, where nothing else was kept.

    Where repetitions differ much, a median alone would hide it.
    """
    known = {(r.case, r.against): (r.median, r.min, r.max) for r in report.ratios}
    measured = spread(quotients(row.values, other.values))
    median, low, high = known.get((row.case, other.case), measured)
    if median is None and row.median and other.median:
        median = row.median / other.median
    if median is None:
        return None
    if low and high and high > _WIDE * low:
        return f"{_number(median)} × ({_number(low)} to {_number(high)})"
    return f"{_number(median)} ×"


# -- the page ----------------------------------------------------------------------------------


def section(report: Report) -> str:
    """One report: its date, machine and commit, the rows, and the ratios with their goals."""
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    facts = f"{report.date[:16].replace('T', ' ')} UTC, commit {_short(report.commit)}. {machine}."
    if report.seconds is not None:
        minutes = f"It took {max(1, round(report.seconds / 60))} min."
        facts += f" {minutes if report.seconds else 'Assembled from single runs.'}"
    if is_older(report):
        facts += " **Measured on older code.**"
    tables = [_table(_rows(report.rows))] + [_table(_ratios(report.ratios))] * bool(report.ratios)
    return "\n\n".join([facts, *tables])


def _rows(rows: Iterable[Row]) -> Iterator[tuple[str, ...]]:
    rows = list(rows)
    goals = any(row.goal is not None for row in rows)
    yield "case", "median", "smallest to largest", "unit", "n", *(("goal", "holds") * goals)
    for row in rows:
        verdict = _verdict(row) * goals
        if row.median is None:
            yield row.case, "absent", row.note, "", "", *verdict
        else:
            yield row.case, _number(row.median), _spread(row), row.unit, str(row.n), *verdict


def _ratios(ratios: Iterable[Ratio]) -> Iterator[tuple[str, ...]]:
    yield "ratio of", "over", "median", "smallest to largest", "goal", "holds"
    for ratio in ratios:
        yield ratio.case, ratio.against, _number(ratio.median), _spread(ratio), *_verdict(ratio)


def _spread(said: Row | Ratio) -> str:
    """The spread, and the note; the paper tells no spread."""
    spread = f"{_number(said.min)} to {_number(said.max)}"
    of_the_paper = isinstance(said, Row) and said.contestant == PAPER
    return "; ".join([spread] * (not of_the_paper) + [said.note] * bool(said.note))


def _verdict(judged: Row | Ratio) -> tuple[str, str]:
    word = holds(judged)
    return goal(judged), word if word in {"", "yes"} else f"**{word}**"


def _table(lines: Iterable[tuple[str, ...]]) -> str:
    head, *body = lines
    rule = ("---",) * len(head)
    # Notes are what failed programs said; a bar would begin another column.
    escaped = ([cell.replace("|", "\\|") for cell in line] for line in (head, rule, *body))
    return "\n".join("| " + " | ".join(line) + " |" for line in escaped)


def _number(value: float | None) -> str:
    if value is None:
        return "—"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


# -- both --------------------------------------------------------------------------------------


def filled(text: str, contents: Mapping[str, str]) -> str:
    """The text, with the contents between ``<!-- NAME -->`` and ``<!-- /NAME -->``.

    Raises:
        Refused: there is no such place for some of them.
    """
    missing = []
    for name, content in contents.items():
        place = re.compile(rf"(?s)(<!-- {name} -->\n).*?(\n<!-- /{name} -->)")
        text, found = place.subn(lambda m, c=content: f"{m[1]}\n{c}\n{m[2]}", text)  # type: ignore[misc]
        missing += [f"no place for {name}: write <!-- {name} --> and <!-- /{name} -->"] * (
            not found
        )
    if missing:
        raise Refused(missing)
    return text


def pages() -> dict[Path, str]:
    """README and benchmark page as they should be, by path."""
    reports = published()
    return {
        README: filled(README.read_text(), {"figures": readme_table(lines(), reports)}),
        PAGE: filled(PAGE.read_text(), {name: section(r) for name, r in reports.items()}),
    }


def publish(report: Report) -> None:
    """Keep a report, and draw those of its figures that the page shows.

    Raises:
        Refused: it is of a single task, and would replace those of all, or of a quick run.
    """
    if report.quick:
        raise Refused(
            [f"{report.name} is of a quick run, whose figures mean nothing: run it whole"]
        )
    if report.name not in BENCHMARKS:
        raise Refused([f"{report.name} is a part of a benchmark: publish a report of the whole"])
    write_json(report, RESULTS / f"{report.name}.json")
    shown = PAGE.read_text()
    with tempfile.TemporaryDirectory() as folder:
        for figure in BENCHMARKS[report.name].draw(report, Path(folder, f"{report.name}.json")):
            if f"(figures/{figure.name})" in shown:
                shutil.copy(figure, FIGURES)


def main(paths: Iterable[str]) -> int:
    """Publish these reports, and write both pages."""
    for path in map(Path, paths):
        publish(read_json(path))
    for path, text in pages().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
