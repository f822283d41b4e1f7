"""Figures that answer one question each, with captions that can be understood alone.

Where a curve is of several runs, it is their mean, and a band from the lowest to the highest run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from artos.errors import Refused
from deploy.figures.common_part import Floats, common_part
from deploy.figures.drawing import SIZE, Format, drawn, label, style
from deploy.figures.read_run import Group, ReadRun
from deploy.figures.timeline import draw_timeline, timeline
from deploy.tracing.file import events_of
from head.records.episodes import WINDOW
from head.records.place import STEPS, UPDATES, place

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 200
"""Points of a curve."""
_LINES = 100_000
"""Of a journal that is longer, the timeline shows the last ones."""
_BAND = "Lines are means, bands reach from the lowest to the highest run."


@dataclass(frozen=True)
class Answer:
    """A figure: its file's name without a suffix, title, caption, and what draws it.

    ``size`` is in inches, ``best`` the kind of file in which it is small.
    """

    name: str
    question: str
    caption: str
    draw: Callable[[Axes], None]
    size: tuple[float, float] = SIZE
    best: Format = "svg"

    def files(self, *kinds: Format) -> dict[Format, bytes]:
        """The figure as files of these kinds."""
        return drawn(self.draw, kinds, self.size)


@dataclass(frozen=True)
class Curve:
    """Values of some runs at common places, shapes (points,) and (runs, points)."""

    label: str
    at: Floats
    values: Floats


def answers(groups: Sequence[Group]) -> list[Answer]:
    """The figures for which these runs have data, in the order in which one would ask."""
    questions = (_BY_STEPS, _IN_TIME, _evaluated, _lags, _times, _did)
    found = (question(groups) for question in questions)
    return [answer for answer in found if answer is not None]


def curve_of(name: str, runs: Iterable[ReadRun], *, seconds: bool = False) -> Curve | None:
    """Running means of the returns of some runs, from where all of them have one.

    None if none of them has an episode, or they have no part in common.
    """
    found = [
        (run.seconds_at(run.episodes.steps) if seconds else run.episodes.steps,
         run.episodes.running_mean())
        for run in runs
        if len(run.episodes)
    ]  # fmt: skip
    if not found:
        return None
    at, values = common_part(found, _POINTS)
    return Curve(name, at, values) if at.size else None


def draw_curves(axes: Axes, curves: Sequence[Curve], below: str, beside: str) -> None:
    """Curves with their bands, and what their axes are of."""
    from matplotlib.ticker import EngFormatter  # noqa: PLC0415

    for number, curve in enumerate(curves):
        colour, dashes = style(number)
        mean = curve.values.mean(axis=0)
        axes.plot(curve.at, mean, dashes, color=colour, label=label(curve.label), linewidth=1.6)
        if len(curve.values) > 1:
            low, high = curve.values.min(axis=0), curve.values.max(axis=0)
            axes.fill_between(curve.at, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.set_xlabel(below)
    axes.set_ylabel(beside)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if curves:
        axes.legend(frameon=False, fontsize=8)


def _returns(
    groups: Sequence[Group], name: str, question: str, below: str, *, seconds: bool = False
) -> Answer | None:
    begun = _having(groups, lambda run: len(run.episodes) and (run.history or not seconds))
    found = {g: curve for g in begun if (curve := curve_of(g.label, g.runs, seconds=seconds))}
    there, curves = [*found], [*found.values()]
    if not curves:
        return None
    caption = (
        f"Return per episode while learning (mean of the last {WINDOW} episodes) by {below}. "
        f"{_spread(there)}A curve ends where the first of its runs does. "
        f"{_whose(there, groups, 'episodes to compare')}"
    )
    beside = f"return, mean of {WINDOW} episodes"
    return Answer(name, question, caption, lambda axes: draw_curves(axes, curves, below, beside))


_BY_STEPS = partial(
    _returns, name="return-by-steps", question="How much does it earn after so many steps?",
    below=STEPS,
)  # fmt: skip
_IN_TIME = partial(
    _returns, name="return-by-seconds", question="How much does it earn after so much time?",
    below="seconds of training", seconds=True,
)  # fmt: skip


def _evaluated(groups: Sequence[Group]) -> Answer | None:
    there, curves = list[Group](), list[Curve]()
    for group in _having(groups, lambda run: len(run.evaluated) > 1):
        runs = [run.evaluated for run in group.runs]
        places = [[float(place(e.steps, e.updates)) for e in run] for run in runs]
        at = np.unique(np.concatenate(places))
        at = at[(at >= max(each[0] for each in places)) & (at <= min(each[-1] for each in places))]
        if not at.size:
            continue
        values = [
            np.interp(at, each, [e.mean_return for e in run])
            for each, run in zip(places, runs, strict=True)
        ]
        curves.append(Curve(group.label, at, np.stack(values)))
        there.append(group)
    if not curves:
        return None
    made = any(run.evaluated[-1].steps for group in there for run in group.runs)
    below = STEPS if made else UPDATES
    caption = (
        "Mean return of evaluations during training, in environments of their own and without "
        f"exploration, by {below}. {_spread(there)}"
        f"{_whose(there, groups, 'evaluations to compare')}"
    )
    beside = "mean return of an evaluation"
    return Answer(
        "evaluation", "How well does it play without exploring?", caption,
        lambda axes: draw_curves(axes, curves, below, beside),
    )  # fmt: skip


def _lags(groups: Sequence[Group]) -> Answer | None:
    there = _having(groups, _lag_shares)
    shares = [(group.label, [*map(_lag_shares, group.runs)]) for group in there]
    names = sorted(
        {name for _, each in shares for run in each for name in run},
        key=lambda name: int(name.partition("-")[0]),
    )
    if not names:
        return None
    caption = (
        "How many versions older than the learner's the rows were that it learned from, as shares "
        f"of all of them. {_spread(there, 'Bars')}{_whose(there, groups, 'any such row')}"
    )
    return Answer(
        "lag", "How old are the rows that it learns from?", caption,
        lambda axes: _bars(axes, names, shares, "policy lag, versions", "share of rows"),
    )  # fmt: skip


def _lag_shares(run: ReadRun) -> dict[str, float]:
    counts = run.last.lags or run.ending.lag_histogram
    total = sum(counts.values())
    return {name: rows / total for name, rows in counts.items() if total}


def _times(groups: Sequence[Group]) -> Answer | None:
    there = _having(groups, lambda run: run.last.shares)
    shares = [(group.label, [run.last.shares for run in group.runs]) for group in there]
    every = [run for _, each in shares for run in each]
    kinds = dict.fromkeys(kind for run in every for kind in run)
    names = [name for name in kinds if max(run.get(name, 0.0) for run in every) >= 0.005]
    if not names:
        return None
    caption = (
        "Where members spent their time: shares of the wall time of the learner, and of all actors "
        f"together; shares below 0.5 % are left out. {_spread(there, 'Bars')}"
        f"{_whose(there, groups, 'times')}"
    )
    return Answer(
        "time", "Where does the time go?", caption,
        lambda axes: _bars(axes, names, shares, "share of wall time", "", across=True),
    )  # fmt: skip


def _did(groups: Sequence[Group]) -> Answer | None:
    """Of one run alone: of several there is no room."""
    runs = [run for group in groups for run in group.runs]
    if len(runs) != 1:
        return None
    try:
        told = timeline(events_of(runs[0].folder, -_LINES))
    except Refused:  # a journal that is damaged or missing takes nothing from the rest
        return None
    if not told.rows:
        return None
    caption = "What each member did when; it waited where it is grey. " + " ".join((
        "Slices that are too short to be seen are joined.",
        *(["The run was longer: these are its last seconds."] if told.begin > 1.0 else []),
        *([f"{told.left_out} more members are left out."] if told.left_out else []),
        _whose(groups, groups),
    ))  # fmt: skip
    return Answer(
        "timeline", "Who did what when?", caption, lambda axes: draw_timeline(axes, told),
        (8.0, 1.2 + 0.22 * len(told.rows)), "png",
    )  # fmt: skip


def _bars(
    axes: Axes, names: Sequence[str], shares: Sequence[tuple[str, Sequence[Mapping[str, float]]]],
    below: str, beside: str, *, across: bool = False,
) -> None:  # fmt: skip
    """A bar for each name and group: means, with a whisker from the lowest to the highest run."""
    bars = [
        (whose, np.array([[run.get(name, 0.0) for name in names] for run in each]))
        for whose, each in shares
    ]
    places, width = np.arange(len(names), dtype=np.float64), 0.8 / len(bars)
    for number, (whose, values) in enumerate(bars):
        mean = values.mean(axis=0)
        spread = np.abs(np.stack([values.min(axis=0), values.max(axis=0)]) - mean)
        at, look = places + (number - (len(bars) - 1) / 2) * width, style(number)[0]
        options: dict[str, Any] = {"color": look, "label": label(whose), "ecolor": "#5f6b7a"}
        if len(values) > 1:
            options["yerr" if not across else "xerr"] = spread
        if across:
            axes.barh(at, mean, width, **options)
        else:
            axes.bar(at, mean, width, **options)
    shown = [*map(label, names)]
    if across:
        axes.set_yticks(places, shown)
        axes.invert_yaxis()
    else:
        axes.set_xticks(places, shown)
    axes.set_xlabel(below)
    axes.set_ylabel(beside)
    axes.legend(frameon=False, fontsize=8)


def _spread(groups: Sequence[Group], what: str = "Lines") -> str:
    if all(len(group.runs) == 1 for group in groups):
        return ""
    return (
        f"{_BAND} "
        if what == "Lines"
        else ("Bars are means, whiskers reach from the lowest to the highest run. ")
    )


def _having(groups: Sequence[Group], has: Callable[[ReadRun], object]) -> list[Group]:
    """Of each group those runs that have it, if there are any."""
    found = (replace(group, runs=tuple(filter(has, group.runs))) for group in groups)
    return [group for group in found if group.runs]


def _whose(there: Sequence[Group], groups: Sequence[Group], what: str = "") -> str:
    """Whose data is there; of all ``groups``, some runs may be without."""
    without = sum(len(group.runs) for group in groups) - sum(len(group.runs) for group in there)
    left_out = f" {without} without {what} {'are' if without > 1 else 'is'} left out."
    named = "; ".join(label(group.who).strip() for group in there)
    return f"{named}.{left_out * (without > 0)}"
