"""Figures of the curves: a panel for each task, a band and its mean for each side.

Drawn from a report, so they can be drawn again: ``python -m evaluation.references.figures FILE``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from evaluation.core.figure import draw, redraw, save
from evaluation.core.report import OURS, Report
from evaluation.references.every_task import EVERY
from evaluation.references.task import Task

_OURS, _THEIRS, _INK = "#0b6e99", "#d17a22", "#22303a"


def draw_all(tasks: Mapping[str, Task], report: Report, path: Path) -> list[Path]:
    """Draw every figure of these tasks next to ``path``; returns where they are."""
    bars, curves = path.with_suffix(".png"), path.with_name(f"{path.stem}-curves.png")
    draw(report, bars)
    shown = [name for name in tasks if f"{OURS}, {name}" in report.series] or [*tasks]
    figure = Figure(figsize=(3.6 * len(shown), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    for axes, name in zip(panels, shown, strict=True):
        for side, colour in ((OURS, _OURS), (tasks[name].rival, _THEIRS)):
            if series := report.series.get(f"{side}, {name}"):
                _band(axes, series, side, colour)
        axes.set_title(name, fontsize=8, loc="left", color=_INK)
        axes.set_xlabel("share of the steps", fontsize=7, color=_INK)
        axes.tick_params(labelsize=7, colors=_INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=7, frameon=False)
    save(figure, report, curves, "mean return of episodes, lowest to highest of all seeds")
    return [bars, curves]


def _band(axes: Axes, series: dict[str, list[float]], side: str, colour: str) -> None:
    at = [(number + 1) / len(series["mean"]) for number in range(len(series["mean"]))]
    axes.fill_between(at, series["lowest"], series["highest"], color=colour, alpha=0.2, lw=0)
    axes.plot(at, series["mean"], color=colour, label=side, lw=1.6)


if __name__ == "__main__":
    sys.exit(redraw(partial(draw_all, EVERY), sys.argv[1:]))
