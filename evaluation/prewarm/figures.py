"""Figures of the pre-warming benchmark: the paper's Figure 15b, and how long invocations waited.

Drawn from a report, so they can be drawn again: ``python -m evaluation.prewarm.figures FILE.json``.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from evaluation.core.figure import draw, redraw, save
from evaluation.core.report import OURS, Report
from evaluation.prewarm.artos_side import IN_TIME as LIMIT
from evaluation.prewarm.cases import (
    APART,
    CHANGING,
    CONSTANT,
    IN_TIME,
    NEVER,
    NONE,
    QUANTILES,
    WAYS,
    WINDOW,
)

_COLOURS = {NEVER: "#5f6b7a", NONE: "#b8c4cc", WINDOW: "#d8a48f", QUANTILES: "#0b6e99"}
_INK = "#22303a"
_RUNS = (CONSTANT, CHANGING, APART)


def draw_all(report: Report, path: Path) -> list[Path]:
    """Draw every figure next to ``path``; returns where they are."""
    bars, early, waits = (
        path.with_suffix(".png"),
        path.with_name(f"{path.stem}-figure-15b.png"),
        path.with_name(f"{path.stem}-waits.png"),
    )
    draw(report, bars)
    _panels(report, early, _early, "seconds from the order until the invocation, by update")
    _panels(report, waits, _waits, "share of invocations that wait at most so long (ms)")
    return [bars, early, waits]


def _series(report: Report, which: str, way: str) -> dict[str, list[float]]:
    return report.series.get(f"{OURS}, {way}, {which}", {})


def _panels(report: Report, path: Path, panel: object, title: str) -> None:
    figure = Figure(figsize=(12.0, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, which in zip(figure.subplots(1, len(_RUNS)), _RUNS, strict=True):
        assert callable(panel)
        panel(axes, report, which)
        axes.set_title(which, fontsize=9, loc="left", color=_INK)
        axes.tick_params(labelsize=7, colors=_INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=7, frameon=False)
    save(figure, report, path, title, 10)


def _early(axes: Axes, report: Report, which: str) -> None:
    """The paper's Figure 15b; dashed: how long the restores took. Gaps: nothing was ordered."""
    for way in (WINDOW, QUANTILES):
        found = _series(report, which, way)
        early = [seconds or math.nan for seconds in found.get("early", [])]
        axes.plot(early, color=_COLOURS[way], linewidth=1.3, marker=".", label=way)
        restore = found.get("restore", [])
        axes.plot(restore, color=_COLOURS[way], linewidth=0.8, linestyle="--", label="its restores")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("update", fontsize=8, color=_INK)


def _waits(axes: Axes, report: Report, which: str) -> None:
    """The distribution of the waits."""
    for way in WAYS:
        waits = sorted(_series(report, which, way).get("waits", []))
        shares = [(number + 1) / len(waits) for number in range(len(waits))]
        axes.step([1e3 * wait for wait in waits], shares, color=_COLOURS[way], label=way)
    axes.axvline(1e3 * LIMIT, color=_INK, linewidth=0.6, linestyle=":", label=IN_TIME)
    axes.set_xscale("symlog", linthresh=10)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("ms", fontsize=8, color=_INK)


if __name__ == "__main__":
    sys.exit(redraw(draw_all, sys.argv[1:]))
