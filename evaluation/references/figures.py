"""Figures of the curves: a panel for each task, a band and its median for each side.

Drawn from a report, so they can be drawn again: ``python -m evaluation.references.figures FILE``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from msgspec import structs

from evaluation.core.figure import draw, redraw, save
from evaluation.core.report import OURS, Report, Row
from evaluation.references.every_task import EVERY
from evaluation.references.task import FINAL, Task, who

_OURS, _THEIRS, _INK = "#0b6e99", "#d17a22", "#22303a"


def draw_all(tasks: Mapping[str, Task], report: Report, path: Path) -> list[Path]:
    """Draw every figure of these tasks next to ``path``; returns where they are."""
    bars, curves = path.with_suffix(".png"), path.with_name(f"{path.stem}-curves.png")
    draw(structs.replace(report, rows=[_finite(row) for row in report.rows]), bars)
    shown = [name for name in tasks if who(name, OURS) in report.series] or [*tasks]
    seeds = {row.case: row.n for row in report.rows}
    figure = Figure(figsize=(3.6 * len(shown), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    for axes, name in zip(panels, shown, strict=True):
        for side, colour in ((OURS, _OURS), (tasks[name].rival, _THEIRS)):
            if series := report.series.get(who(name, side)):
                n = seeds.get(f"{FINAL}: {who(name, side)}", 0)
                _band(axes, series, f"{side}, n = {n}", colour)
        axes.set_title(name, fontsize=8, loc="left", color=_INK)
        axes.set_xlabel("share of the steps", fontsize=7, color=_INK)
        axes.tick_params(labelsize=7, colors=_INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=7, frameon=False)
    save(figure, report, curves, "mean return of episodes, lowest to highest of all seeds")
    return [bars, curves]


def _finite(row: Row) -> Row:
    """Without what never was, which no bar is long enough for: as a bar up to the most that was."""
    there = [value for value in row.values if value is not None and math.isfinite(value)]
    median = row.median if row.median is not None and math.isfinite(row.median) else None
    return structs.replace(row, median=median, max=max(there, default=None))


def _band(axes: Axes, series: dict[str, list[float]], label: str, colour: str) -> None:
    at = [(number + 1) / len(series["mean"]) for number in range(len(series["mean"]))]
    axes.fill_between(at, series["lowest"], series["highest"], color=colour, alpha=0.2, lw=0)
    middle = series.get("median", series["mean"])  # reports of earlier have only the latter
    axes.plot(at, middle, color=colour, label=label, lw=1.6)


if __name__ == "__main__":
    sys.exit(redraw(partial(draw_all, EVERY), sys.argv[1:]))
