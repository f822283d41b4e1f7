"""A report as pictures: one panel per group of cases, one bar per contestant, min-max whiskers.

Series have one panel per name and one line per contestant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from evaluation.core.report import OURS, Report, Row, grouped, number, read_json

_OURS, _THEIRS, _INK = "#0b6e99", "#b8c4cc", "#22303a"
_WIDTH_INCHES, _BAR_INCHES, _PANEL_INCHES = 8.0, 0.32, 0.75


def redraw(draw_all: Callable[[Report, Path], list[Path]], paths: Iterable[str]) -> int:
    """Draw the figures of reports again, next to their files, and print where they are."""
    for path in map(Path, paths):
        print(*draw_all(read_json(path), path), sep="\n")
    return 0


def save(figure: Figure, report: Report, path: Path, title: str = "", size: float = 11) -> None:
    """Write a figure as PNG, making its folder; above it stand its title and the machine.

    ``title`` is followed by a new line; without one there is the report's name.
    """
    what = f"{title}\n" if title else f"{report.name} – "
    machine = f"{report.machine['cpu']}, {report.machine['cores']} cores"
    figure.suptitle(what + machine, fontsize=size, color=_INK)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def draw(report: Report, path: Path) -> None:
    """Write the report's picture as PNG, making its folder; cases without values say "absent"."""
    panels = [rows for _, rows in grouped(report.rows)]
    heights = [_PANEL_INCHES + _BAR_INCHES * len(rows) for rows in panels]
    figure = Figure(figsize=(_WIDTH_INCHES, sum(heights) + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel, rows in zip(axes, panels, strict=True):
        _panel(panel, rows)
    save(figure, report, path)


def _panel(axes: Axes, rows: Sequence[Row]) -> None:
    places = range(len(rows))
    lengths = [row.median or 0.0 for row in rows]
    colours = [_OURS if row.contestant.startswith(OURS) else _THEIRS for row in rows]
    axes.barh(places, lengths, color=colours, height=0.72)
    for place, row in zip(places, rows, strict=True):
        _label(axes, place, row)
    axes.set_yticks(places, [row.contestant for row in rows], fontsize=8, color=_INK)
    axes.invert_yaxis()
    axes.margins(x=0.16)
    unit = f" ({rows[0].unit})" if rows[0].unit else ""
    axes.set_title(rows[0].group + unit, fontsize=9, loc="left", color=_INK)
    axes.tick_params(axis="x", labelsize=7, colors=_INK)
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.spines[["top", "right"]].set_visible(False)


def _label(axes: Axes, place: int, row: Row) -> None:
    if row.median is None or row.min is None or row.max is None:
        axes.text(0, place, " absent", va="center", fontsize=8, color="#a03020")
        return
    axes.plot([row.min, row.max], [place, place], color=_INK, linewidth=1, marker="|", markersize=5)
    axes.annotate(
        number(row.median),
        (row.max, place),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
        color=_INK,
    )


# -- series ------------------------------------------------------------------------------------

_LINE_INCHES = 1.6


def draw_series(report: Report, path: Path) -> None:
    """Write the picture of a report's series as PNG, making its folder."""
    names = list(dict.fromkeys(name for lines in report.series.values() for name in lines))
    figure = Figure(figsize=(_WIDTH_INCHES, _LINE_INCHES * len(names) + 0.9), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(names), 1, squeeze=False, sharex=True)[:, 0]
    for panel, name in zip(axes, names, strict=True):
        for who, series in report.series.items():
            if name in series:
                mine = who.startswith(OURS)
                # Our line is on top and thinner, so that both are visible where they are equal.
                colour, width = (_OURS, 1.3) if mine else (_THEIRS, 2.6)
                panel.plot(
                    series[name],
                    drawstyle="steps-mid",
                    color=colour,
                    linewidth=width,
                    label=who,
                    zorder=3 if mine else 2,
                )
        panel.set_ylim(bottom=0)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set_title(name, fontsize=9, loc="left", color=_INK)
        panel.tick_params(labelsize=7, colors=_INK)
        panel.spines[["top", "right"]].set_visible(False)
    axes[0].legend(fontsize=8, frameon=False)
    axes[-1].set_xlabel("update", fontsize=8, color=_INK)
    save(figure, report, path)
