"""Figures of the curves: a panel for each task, a band and its mean for each side.

Drawn from a report, so they can be drawn again: ``python -m evaluation.references.figures FILE``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from evaluation.core.figure import draw, redraw, save
from evaluation.core.report import OURS, Report
from evaluation.references.tasks import TASKS

_OURS, _THEIRS, _INK = "#0b6e99", "#d17a22", "#22303a"


def draw_all(report: Report, path: Path) -> list[Path]:
    """Draw every figure next to ``path``; returns where they are."""
    bars, curves = path.with_suffix(".png"), path.with_name(f"{path.stem}-curves.png")
    draw(report, bars)
    figure = Figure(figsize=(3.6 * len(TASKS), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, name in zip(figure.subplots(1, len(TASKS)), TASKS, strict=True):
        for side, colour in ((OURS, _OURS), (TASKS[name].rival, _THEIRS)):
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
    sys.exit(redraw(draw_all, sys.argv[1:]))
