"""How the paper's figures are drawn from a report's series."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from evaluation.core.figure import save
from evaluation.core.report import OURS, Report

INK = "#22303a"
_COLOURS = ("#0b6e99", "#d17a22", "#5b8c3e", "#8b5ca6", "#8d9ba5")
_SIZE = (4.2, 3.0)


def panels(count: int) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels side by side."""
    figure = Figure(figsize=(_SIZE[0] * count, _SIZE[1] + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(1, count, squeeze=False)[0])
    for each in axes:
        each.tick_params(labelsize=7, colors=INK)
        each.spines[["top", "right"]].set_visible(False)
    return figure, axes


def named(axes: Axes, title: str, x: str) -> None:
    """Title, label and legend of a panel."""
    axes.set_title(title, fontsize=8, loc="left", color=INK)
    axes.set_xlabel(x, fontsize=7, color=INK)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=6.5, frameon=False)


def lines(
    axes: Axes, report: Report, names: Sequence[str], x: str, y: str, labels: Sequence[str]
) -> None:
    """One colour for each label; series that begin with its name are lines of that colour."""
    for name, label, colour in zip(names, labels, _COLOURS, strict=False):
        shown = ""
        for series_of, series in report.series.items():
            if series_of.startswith(f"{name}, ") and y in series:
                axes.plot(
                    series[x], series[y], color=colour, lw=1.3,
                    label=None if shown else label,
                )  # fmt: skip
                shown = label


def against_the_clock(report: Report, path: Path, tasks: Sequence[str], title: str) -> Path:
    """A panel for each task: mean returns by seconds, ours and Ray's, a line for each seed."""
    figure, axes = panels(len(tasks))
    for panel, task in zip(axes, tasks, strict=True):
        lines(
            panel, report, [f"{OURS}, {task}", f"Ray, {task}"], "seconds", "return", [OURS, "Ray"]
        )
        named(panel, task, "seconds")
    save(figure, report, path, f"{title}: mean return of 100 episodes, a line for each seed", 9)
    return path


def shaded(axes: Axes, report: Report, who: str, kinds: Sequence[str]) -> None:
    """Lines of medians over updates, and shades from the smallest to the largest repetition."""
    series = report.series.get(who, {})
    for kind, colour in zip(kinds, _COLOURS, strict=False):
        if kind in series:
            at = range(len(series[kind]))
            low, high = series[f"{kind}, smallest"], series[f"{kind}, largest"]
            axes.fill_between(at, low, high, color=colour, alpha=0.25, lw=0, step="mid")
            axes.plot(at, series[kind], color=colour, lw=1.2, label=kind, drawstyle="steps-mid")
    axes.set_ylim(bottom=0)
