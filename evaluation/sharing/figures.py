"""Figures of the sharing benchmark: the paper's Figure 13 (update time) and 14 (resource time).

Drawn from a report, so they can be drawn again: ``python -m evaluation.sharing.figures FILE.json``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from evaluation.core.figure import draw, redraw, save
from evaluation.core.report import OURS, Report, Row, number
from evaluation.sharing.cases import (
    COUNTS,
    IN_TURN,
    RAY,
    RAY_BY_TWO,
    RAY_IN_TURN,
    RAY_NARROW,
    named,
)

_COLOURS = {
    OURS: "#0b6e99", IN_TURN: "#8fbfd4", RAY: "#b8c4cc", RAY_NARROW: "#8d9ba5",
    RAY_IN_TURN: "#dde3e7", RAY_BY_TWO: "#a9b6be",
}  # fmt: skip
_USED = {OURS: "#06384f"}
_USED_OF_RAY = "#66747e"
_INK, _ABSENT = "#22303a", "#a03020"
_ALL_BARS = 0.84


class Panel(NamedTuple):
    """Bars of a measure; narrow ones within them show how much of that was ``used``."""

    title: str
    key: str
    used: str = ""
    who: tuple[str, ...] = (OURS, RAY, RAY_NARROW)


_HOLDERS = (OURS, RAY, RAY_NARROW, RAY_IN_TURN)
FIGURES = {
    "figure-13": (
        "update time, and time until all are done",
        (
            Panel("mean update (s)", "update_s"),
            Panel(
                "makespan, start-up included (s)",
                "makespan_s",
                who=(OURS, IN_TURN, RAY, RAY_NARROW, RAY_BY_TWO, RAY_IN_TURN),
            ),
        ),
    ),
    "figure-14": (
        "resource time held, and CPU used of it",
        (
            Panel("CPU-seconds of all actors", "held_cpu_s", "used_cpu_s", _HOLDERS),
            Panel(
                "device-seconds held (Ray at once: a device each)", "held_device_s", who=_HOLDERS
            ),
        ),
    ),
}
"""By the end of the file's name: a title, and the panels for each workload."""


def draw_all(report: Report, path: Path) -> list[Path]:
    """Draw every figure next to ``path``; returns where they are."""
    made = [path.with_suffix(".png")]
    draw(report, made[0])
    for name, (title, panels) in FIGURES.items():
        rows = {row.case: row for row in report.rows}
        workloads = [w for w in ("PPO", "SAC") if any(f" {w}, " in case for case in rows)]
        size = (4.6 * len(panels), 2.7 * len(workloads) + 0.7)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(len(workloads), len(panels), squeeze=False)
        for workload, line in zip(workloads, grid, strict=True):
            for axes, panel in zip(line, panels, strict=True):
                width = _ALL_BARS / len(panel.who)
                for who in panel.who:
                    held = _found(rows, workload, panel, who, panel.key)
                    if not held:
                        continue
                    label = f"{who}, held" if panel.used else who
                    _bars(axes, held, 0.9 * width, _COLOURS[who], label)
                    if panel.used:
                        used = _found(rows, workload, panel, who, panel.used)
                        _bars(
                            axes,
                            used,
                            0.4 * width,
                            _USED.get(who, _USED_OF_RAY),
                            f"{who}, used",
                            within=True,
                        )
                axes.set_xticks(range(len(COUNTS)), [_number(count) for count in COUNTS])
                axes.set_title(f"{workload}: {panel.title}", fontsize=9, loc="left", color=_INK)
                axes.tick_params(labelsize=7, colors=_INK)
                axes.tick_params(axis="x", length=0)
                axes.yaxis.set_major_formatter("{x:,g}")
                axes.margins(y=0.12)
                axes.spines[["top", "right"]].set_visible(False)
                axes.legend(fontsize=7, frameon=False, loc="upper left", labelcolor=_INK)
        made.append(path.with_name(f"{path.stem}-{name}.png"))
        save(figure, report, made[-1], title, 10)
    return made


def _number(count: int) -> str:
    return "1 alone" if count == 1 else f"{count} at once"


def _found(
    rows: dict[str, Row], workload: str, panel: Panel, who: str, key: str
) -> list[tuple[float, Row]]:
    """Where a contestant's bars stand, and what they show; those of one number are side by side."""
    found = []
    for place, count in enumerate(COUNTS):
        there = [w for w in panel.who if named(workload, count, w, panel.key) in rows]
        case = named(workload, count, who, key)
        if who in there and case in rows:
            shift = there.index(who) - (len(there) - 1) / 2
            found.append((place + shift * _ALL_BARS / len(panel.who), rows[case]))
    return found


def _bars(
    axes: Axes,
    found: Sequence[tuple[float, Row]],
    width: float,
    colour: str,
    label: str,
    *,
    within: bool = False,
) -> None:
    """Bars; those that are not within others have whiskers and their number above."""
    places, heights = [place for place, _ in found], [row.median or 0.0 for _, row in found]
    axes.bar(places, heights, width=width, color=colour, label=label)
    for place, row in () if within else found:
        if row.median is None or row.min is None or row.max is None:
            said, top, ink = "absent", 0.0, _ABSENT
        else:
            said, top, ink = number(row.median), row.max, _INK
            axes.plot([place, place], [row.min, row.max], color=_INK, linewidth=0.8)
        axes.annotate(
            said, (place, top), xytext=(0, 2), textcoords="offset points",
            ha="center", va="bottom", fontsize=6.5, color=ink,
        )  # fmt: skip


if __name__ == "__main__":
    sys.exit(redraw(draw_all, sys.argv[1:]))
