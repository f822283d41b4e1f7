"""Who did what when, as a figure: a row for each member, what is too short to see joined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deploy.figures.drawing import Look, label, look
from deploy.tracing.events import Event

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WAIT, _WAITS = "wait", Look("#d9dee4", "-", "")
_WIDTH = 1_200
"""Slices that are nearer to each other than this part of the whole are one."""
_MOST_ROWS = 40


@dataclass
class Timeline:
    """Slices (begin, length in seconds) by member, then by what was done."""

    rows: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    begin: float = 0.0
    end: float = 0.0
    left_out: int = 0
    """Members for which there is no room."""


def timeline(events: Iterable[Event]) -> Timeline:
    """The timeline of a trace: of the members that come first, up to as many as fit."""
    names: dict[int, str] = {}
    slices: list[tuple[int, str, float, float]] = []
    for event in events:
        if event["ph"] == "M" and event["name"] == "thread_name":
            names[event["tid"]] = event["args"]["name"]
        elif event["ph"] == "X" and event["cat"] not in ("part", "rest", "firing"):
            slices.append((event["tid"], event["name"], event["ts"] / 1e6, event["dur"] / 1e6))
    if not slices:
        return Timeline()
    begin, end = min(at for _, _, at, _ in slices), max(at + dur for _, _, at, dur in slices)
    gap = (end - begin) / _WIDTH
    members = sorted({row for row, *_ in slices})
    found = Timeline(begin=begin, end=end, left_out=max(0, len(members) - _MOST_ROWS))
    kept = {*members[:_MOST_ROWS]}
    for row, name, at, dur in sorted(slices):
        if row not in kept:
            continue
        of_kind = found.rows.setdefault(names[row], {}).setdefault(name, [])
        if of_kind and at - sum(of_kind[-1]) < gap:
            first = of_kind[-1][0]
            of_kind[-1] = first, max(sum(of_kind[-1]), at + dur) - first
        else:
            of_kind.append((at, dur))
    return found


def draw_timeline(axes: Axes, told: Timeline) -> None:
    """Draw it; waits are grey and lie below the rest."""
    names = dict.fromkeys(name for kinds in told.rows.values() for name in kinds)
    work = {name: look(n) for n, name in enumerate(name for name in names if name != _WAIT)}
    looks = {_WAIT: _WAITS} | work
    unnamed = {*names}
    for number, kinds in enumerate(told.rows.values()):
        for name in sorted(kinds, key=lambda name: name != _WAIT):
            axes.broken_barh(
                kinds[name], (number - 0.4, 0.8), facecolor=looks[name].colour,
                edgecolor="white", linewidth=0, hatch=looks[name].hatch,
                label=label(name) if name in unnamed else None,
            )  # fmt: skip
            unnamed.discard(name)
    axes.set_yticks(range(len(told.rows)), [*map(label, told.rows)])
    axes.set_ylim(len(told.rows) - 0.4, -0.6)  # the first one on top
    axes.set_xlim(told.begin, told.end)
    axes.set_xlabel("seconds since the run began")
    axes.grid(visible=False, axis="y")
