"""Figures of the pipelining benchmark: the paper's Figures 4, 6 and 15a redrawn, and others.

All are drawn from a report, so they can be drawn again from its JSON:
``python -m evaluation.pipelining.figures pipelining.json``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from evaluation.core.figure import draw, redraw, save
from evaluation.core.report import OURS, Report, Row, number
from evaluation.pipelining.cases import (
    CONTROL_CPU,
    CONTROL_DEAD,
    CONTROL_RATE,
    FASTEST,
    ITERATION,
    MEASURES,
    NOTHING,
    RAY,
    REDIS,
    SAMPLE,
    SPEEDS,
    TRANSFER,
    Size,
    case,
    fleet,
)

USUAL = Size(16, 512)
_COLOURS = {OURS: "#0b6e99", NOTHING: "#7fb4cc", RAY: "#b8c4cc", REDIS: "#d8a48f"}
_SAMPLING, _INK = "#e3e8ec", "#22303a"
_PANEL_INCHES = (4.2, 3.0)


class Medians:
    """Medians of a report by case."""

    def __init__(self, report: Report) -> None:
        self._rows = {row.case: row for row in report.rows}
        self.cases = list(self._rows)

    def of(self, name: str) -> float | None:
        """The median of a case, or None if it was not measured."""
        row = self._rows.get(name)
        return None if row is None else row.median

    def at(self, measure: str, who: str, size: Size) -> float | None:
        """A measure at a size, over the link of the figures."""
        found = self.of(case(measure, FASTEST, who, size))
        return self.of(case(measure, FASTEST, who)) if found is None and size == USUAL else found


def draw_all(report: Report, path: Path) -> list[Path]:
    """Write every figure next to ``path``; figures without measurements are left out."""
    medians, made = Medians(report), []
    drawings: dict[str, Callable[[Medians], Figure | None]] = {
        "figure-4": figure_4,
        "figure-6": figure_6,
        "figure-15a": figure_15a,
        "control": control,
    }
    for name, picture in drawings.items():
        if (figure := picture(medians)) is not None:
            made.append(_write(figure, report, path.with_name(f"{path.stem}-{name}.png")))
    for name, (measure, _) in MEASURES.items():
        groups = {f"{measure}, {speed}" for speed in SPEEDS}
        part = [row for row in report.rows if row.group in groups]
        made += _bars(report, part, path.with_name(f"{path.stem}-{name.rpartition('_')[0]}.png"))
    shown = (SAMPLE, *(measure for measure, _ in MEASURES.values()))
    prefixes = tuple(f"{measure}, " for measure in shown)
    others = [row for row in report.rows if not row.group.startswith(prefixes)]
    return [*made, *_bars(report, others, path.with_suffix(".png"))]


def _bars(report: Report, rows: Sequence[Row], path: Path) -> list[Path]:
    if not rows:
        return []
    draw(msgspec.structs.replace(report, rows=list(rows)), path)
    return [path]


# -- figures of the paper --------------------------------------------------------------------------


def figure_4(medians: Medians) -> Figure | None:
    """Transfer and its share of the iteration, by number of actors and by steps."""
    sizes = _sizes(medians, (OURS, RAY))
    by_actors = [size for size in sizes if size.steps == USUAL.steps]
    by_steps = [size for size in sizes if size.actors == USUAL.actors]
    panels = [panel for panel in (by_actors, by_steps) if panel]
    if not panels:
        return None
    figure = _figure(len(panels))
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for panel, chosen in zip(axes, panels, strict=True):
        labels = [size.actors if chosen is by_actors else size.steps for size in chosen]
        _grouped(panel, medians, (RAY, OURS), chosen, labels)
        panel.set_xlabel("actors" if chosen is by_actors else "steps an actor", fontsize=8)
    return figure


def figure_6(medians: Medians) -> Figure | None:
    """Transfer with Ray, Redis and ARTOS by number of actors."""
    sizes = _sizes(medians, (OURS, RAY, REDIS))
    chosen = [size for size in sizes if size.steps == USUAL.steps]
    if not chosen:
        return None
    figure = _figure(1)
    panel = figure.subplots()
    _grouped(panel, medians, (RAY, REDIS, OURS), chosen, [size.actors for size in chosen])
    panel.set_xlabel("actors", fontsize=8)
    return figure


def figure_15a(medians: Medians) -> Figure | None:
    """Sampling and transfer of an iteration, one panel per link."""
    speeds = [speed for speed in SPEEDS if medians.of(case(TRANSFER, speed, OURS)) is not None]
    if not speeds:
        return None
    figure = _figure(len(speeds))
    axes = figure.subplots(1, len(speeds), squeeze=False)[0]
    for panel, speed in zip(axes, speeds, strict=True):
        who = [name for name in _COLOURS if medians.of(case(TRANSFER, speed, name)) is not None]
        sampling = medians.of(case(SAMPLE, speed, "everyone")) or 0.0
        transfers = [medians.of(case(TRANSFER, speed, name)) or 0.0 for name in who]
        panel.bar(who, [sampling] * len(who), color=_SAMPLING, label="sampling")
        panel.bar(who, transfers, bottom=sampling, color=[_COLOURS[name] for name in who])
        for place, transfer in enumerate(transfers):
            panel.annotate(
                number(transfer), (place, sampling + transfer), ha="center", va="bottom", fontsize=7
            )
        panel.set_title(f"transfer after sampling, {speed}", fontsize=8, loc="left", color=_INK)
        _plain(panel)
    axes[0].set_ylabel("seconds", fontsize=8)
    return figure


def _sizes(medians: Medians, who: Sequence[str]) -> list[Size]:
    """Sizes at which all of these contestants were measured, small sizes first."""
    found = {_size_of(name) for name in medians.cases if name.startswith(f"{TRANSFER}, {FASTEST}")}
    return sorted(
        (s for s in found if all(medians.at(TRANSFER, name, s) is not None for name in who)),
        key=lambda size: (size.actors * size.steps, size.actors),
    )


def _size_of(name: str) -> Size:
    group = name.rpartition(": ")[0]
    words = group.removeprefix(f"{TRANSFER}, {FASTEST}").removeprefix(", ").split()
    return Size(int(words[0]), int(words[3])) if words else USUAL


def _grouped(
    axes: Axes, medians: Medians, who: Sequence[str], sizes: Sequence[Size], labels: Sequence[int]
) -> None:
    """Bars of the transfer, with its share of the iteration above each."""
    width = 0.8 / len(who)
    for place, name in enumerate(who):
        at = [n + (place - (len(who) - 1) / 2) * width for n in range(len(sizes))]
        times = [medians.at(TRANSFER, name, size) or 0.0 for size in sizes]
        axes.bar(at, times, width=width * 0.92, color=_COLOURS[name], label=name)
        for x, time, size in zip(at, times, sizes, strict=True):
            whole = medians.at(ITERATION, name, size)
            share = f"{100 * time / whole:.0f} %" if whole else ""
            axes.annotate(share, (x, time), ha="center", va="bottom", fontsize=6, color=_INK)
    axes.set_xticks(range(len(sizes)), [str(label) for label in labels])
    axes.set_title(
        f"transfer (s), and its share of an iteration, {FASTEST}", fontsize=8, loc="left"
    )
    axes.legend(fontsize=7, frameon=False)
    _plain(axes)


# -- control plane -----------------------------------------------------------------------------


def control(medians: Medians) -> Figure | None:
    """The head's work by number of workers; the thin line is linear growth of its CPU time."""
    counts = [n for n in _counts(medians) if medians.of(f"{CONTROL_CPU}: {fleet(n)}") is not None]
    if not counts:
        return None
    figure = _figure(3)
    for panel, measure in zip(
        figure.subplots(1, 3), (CONTROL_RATE, CONTROL_CPU, CONTROL_DEAD), strict=True
    ):
        values = [medians.of(f"{measure}: {fleet(n)}") or 0.0 for n in counts]
        panel.plot(counts, values, color=_COLOURS[OURS], marker="o", markersize=3)
        panel.set_xscale("log")
        if measure == CONTROL_CPU:
            linear = [values[0] * n / counts[0] for n in counts]
            panel.plot(counts, linear, color=_INK, linewidth=0.5)
            panel.set_yscale("log")
        else:
            panel.set_ylim(bottom=0)
        panel.set_xticks(counts, [f"{n:,}" for n in counts], minor=False)
        panel.set_xticks([], minor=True)
        panel.set_xlabel("workers of 16 actors each", fontsize=8)
        panel.set_title(measure.removeprefix("control plane: "), fontsize=8, loc="left")
        _plain(panel)
    return figure


def _counts(medians: Medians) -> list[int]:
    words = (name.rpartition(", ")[2] for name in medians.cases if name.startswith(CONTROL_CPU))
    return sorted(int(each.split()[0].replace(",", "")) for each in words)


# -- all ---------------------------------------------------------------------------------------


def _figure(panels: int) -> Figure:
    wide, high = _PANEL_INCHES
    figure = Figure(figsize=(wide * panels, high + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _plain(axes: Axes) -> None:
    axes.tick_params(which="both", labelsize=7, colors=_INK)
    axes.spines[["top", "right"]].set_visible(False)


def _write(figure: Figure, report: Report, path: Path) -> Path:
    save(figure, report, path, size=9)
    return path


if __name__ == "__main__":
    sys.exit(redraw(draw_all, sys.argv[1:]))
