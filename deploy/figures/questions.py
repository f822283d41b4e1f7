"""Figures that answer one question each, with captions that can be understood alone.

Where a curve is of several runs, it is their mean, and a band from the lowest to the highest run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from artos.errors import CheckpointFault, Refused
from artos.system.printable import one_line
from deploy.figures.common_part import Floats, common_part
from deploy.figures.drawing import SIZE, WIDTH, Format, drawn, label, labels_apart, look
from deploy.figures.read_run import Group, ReadRun, Say
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
_DID = "Who did what when?"
_FEW = 20
"""Places of a curve that are marked each."""
_WORDS = {
    "environment": "step environments",
    "inference": "choose actions",
    "sample": "sample (the rest)",
    "play": "play episodes",
    "bind": "load weights",
    "gather": "gather rows",
    "publish": "publish weights",
    "wait": "wait to be asked",
    "wait_for_room": "wait for room for rows",
    "wait_for_device": "wait for a device",
}
"""Kinds of time that ARTOS measures; others are called as whoever measures them does."""
_LITTLE = 0.005
_THIN = 4
"""As many bars fill the axes; fewer are no wider."""
_LETTERS = 45
_LETTERS_UP = 30
"""As many letters as fit side by side below and beside axes."""
_TILTED: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
_WHISKERS: dict[str, Any] = {"ecolor": "#1c2530", "capsize": 2, "error_kw": {"elinewidth": 0.9}}


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
    number: int | None = None
    """That of how it looks; None: its place among those that are drawn."""


def answers(groups: Sequence[Group], say: Say) -> list[Answer]:
    """The figures for which these runs have data, in the order in which one would ask.

    ``say`` is told of what is damaged, so that a figure is left out.
    """
    names = labels_apart([group.label for group in groups])
    groups = [
        replace(each, label=name, number=number)
        for number, (each, name) in enumerate(zip(groups, names, strict=True))
    ]
    envs = dict.fromkeys(group.env for group in groups)
    found = [
        answer and replace(answer, name=f"{answer.name}{suffix}")
        for question in (_BY_STEPS, _IN_TIME, _evaluated)
        for env, suffix in zip(envs, _suffixes([*envs]), strict=True)
        for answer in [question([group for group in groups if group.env == env])]
    ]
    found += [_lags(groups), _times(groups), _did(groups, say)]
    return [answer for answer in found if answer is not None]


def _suffixes(envs: Sequence[str]) -> list[str]:
    """For files about environments each: returns of two can't be compared, nor share an axis."""
    if len(envs) == 1:
        return [""]
    plain = [re.sub(r"\W+", "-", env, flags=re.ASCII).strip("-")[:_LETTERS] for env in envs]
    if len({*plain, ""}) <= len(plain):  # numbers tell them apart
        plain = [f"{name}-{number}" for number, name in enumerate(plain, 1)]
    return [f"-{name}" for name in plain]


def curve_of(name: str, runs: Iterable[ReadRun], *, seconds: bool = False) -> Curve | None:
    """Running means of the returns of some runs, from where all of them have one.

    None if none of them has an episode, or they have no part in common.
    """
    found = list[tuple[Floats, Floats]]()
    for run in runs:
        if len(run.episodes):
            steps = run.episodes.steps
            last = np.diff(steps, append=np.inf) > 0  # of those that end at one step
            at = steps[last]
            found.append((run.seconds_at(at) if seconds else at, run.episodes.running_mean()[last]))
    if not found:
        return None
    at, values = common_part(found, _POINTS)
    return Curve(name, at, values) if at.size else None


def draw_curves(axes: Axes, curves: Sequence[Curve], below: str, beside: str) -> None:
    """Curves with their bands, and what their axes are of."""
    from matplotlib.ticker import EngFormatter  # noqa: PLC0415

    for number, curve in enumerate(curves):
        own, mean = (
            look(number if curve.number is None else curve.number),
            curve.values.mean(axis=0),
        )
        low, high = curve.values.min(axis=0), curve.values.max(axis=0)
        axes.plot(
            curve.at, mean, own.dashes, color=own.colour, label=label(curve.label), linewidth=1.4,
            marker="o" if len(curve.at) <= _FEW else "", markersize=3,
        )  # fmt: skip
        if len(curve.at) == 1:  # a band would have no width
            axes.vlines(curve.at, low, high, color=own.colour)
        elif len(curve.values) > 1:
            axes.fill_between(curve.at, low, high, color=own.colour, alpha=0.18, linewidth=0)
    axes.set_xlabel(below)
    axes.set_ylabel(fill(beside, _LETTERS_UP))
    axes.set_xlim(left=0)
    if axes.get_xlim()[1] >= 1_000:  # below 1 it would write thousandths as m
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _returns(
    groups: Sequence[Group], name: str, question: str, below: str, *, seconds: bool = False
) -> Answer | None:
    begun = _having(groups, lambda run: len(run.episodes) and (run.history or not seconds))
    found = {g: curve for g in begun if (curve := curve_of(g.label, g.runs, seconds=seconds))}
    there, curves = [*found], [replace(curve, number=g.number) for g, curve in found.items()]
    if not curves:
        return None
    caption = (
        f"Return per episode while learning (mean of the last {WINDOW} episodes) by {below}. "
        f"{_spread(there)}{_whose(there, groups, 'episodes to compare')}"
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
        curves.append(Curve(group.label, at, np.stack(values), group.number))
        there.append(group)
    if not curves:
        return None
    played = [each for group in there for run in group.runs for each in run.evaluated]
    below = STEPS if any(each.steps for each in played) else UPDATES
    fewest, most = (f(each.episodes for each in played) for f in (min, max))
    count = f"{fewest} to {most}" if fewest < most else f"{most}"
    caption = (
        f"Mean return of evaluations during training ({count} episodes each, in environments of "
        f"their own and without exploration) by {below}. {_spread(there)}"
        f"{_whose(there, groups, 'evaluations to compare')}"
    )
    beside = "mean return of an evaluation"
    return Answer(
        "evaluation", "How well does it play without exploring?", caption,
        lambda axes: draw_curves(axes, curves, below, beside),
    )  # fmt: skip


def _lags(groups: Sequence[Group]) -> Answer | None:
    there = _having(groups, _lag_shares)
    shares = [(group, [*map(_lag_shares, group.runs)]) for group in there]
    found = {name for _, each in shares for run in each for name in run}
    names = {
        name: name.replace("-", "–")
        for name in sorted(found, key=lambda name: int(name.partition("-")[0]))
    }
    if not names:
        return None
    caption = (
        "How many versions older than the learner's the rows were that it learned from, as shares "
        f"of all of them. {_spread(there, 'Bars')}{_whose(there, groups, 'any such row')}"
    )
    return Answer(
        "lag", "How old are the rows that it learns from?", caption,
        lambda axes: draw_bars(axes, names, shares, "policy lag (versions)", "share of rows"),
    )  # fmt: skip


def _lag_shares(run: ReadRun) -> dict[str, float]:
    counts = run.last.lags or run.ending.lag_histogram
    total = sum(counts.values())
    return {name: rows / total for name, rows in counts.items() if total}


def _times(groups: Sequence[Group]) -> Answer | None:
    there = _having(groups, lambda run: run.last.shares)
    shares = [(group, [run.last.shares for run in group.runs]) for group in there]
    every = [run for _, each in shares for run in each]
    kinds = dict.fromkeys(kind.partition(".")[::2] for run in every for kind in run)
    roles = [role for role, _ in kinds]
    names = {
        f"{role}.{kind}": f"{role}: {_WORDS.get(kind, kind.replace('_', ' '))}"
        for role, kind in sorted(
            kinds, key=lambda each: (roles.index(each[0]), each[1].startswith("wait"))
        )
        if max(run.get(f"{role}.{kind}", 0.0) for run in every) >= _LITTLE
    }
    if not names:
        return None
    caption = (
        "Where members spent their time: shares of the wall time of the learner, and of all actors "
        f"together; shares below {_LITTLE:.1%} are left out. {_spread(there, 'Bars')}"
        f"{_whose(there, groups, 'times')}"
    )
    return Answer(
        "time", "Where does the time go?", caption,
        lambda axes: draw_bars(axes, names, shares, "share of wall time", "", across=True),
        (WIDTH, 0.6 + len(names) * (0.13 + 0.055 * len(there))),
    )  # fmt: skip


def _did(groups: Sequence[Group], say: Say) -> Answer | None:
    """Of one run alone: of several there is no room."""
    runs = [run for group in groups for run in group.runs]
    if len(runs) != 1:
        return None
    try:
        told = timeline(events_of(runs[0].folder, -_LINES))
    except (Refused, CheckpointFault) as error:  # it takes nothing from the rest
        if runs[0].history:  # one that has only been asked for has none yet
            say(f"{_DID} {error}")
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
        "timeline", _DID, caption, lambda axes: draw_timeline(axes, told),
        (1.5 * WIDTH, 0.6 + 0.22 * len(told.rows)), "png",
    )  # fmt: skip


def draw_bars(
    axes: Axes, names: Mapping[str, str],
    shares: Sequence[tuple[Group, Sequence[Mapping[str, float]]]], below: str, beside: str, *,
    across: bool = False,
) -> None:  # fmt: skip
    """A bar for each of ``names``, which have words, and each group.

    It is the mean, with a whisker from the lowest to the highest run.
    """
    bars = [
        (whose, np.array([[run.get(name, 0.0) for name in names] for run in each]))
        for whose, each in shares
    ]
    places, width = np.arange(len(names), dtype=np.float64), 0.8 / len(bars)
    for side, (whose, values) in enumerate(bars):
        mean = values.mean(axis=0)
        spread = np.abs(np.stack([values.min(axis=0), values.max(axis=0)]) - mean)
        at, own = places + (side - (len(bars) - 1) / 2) * width, look(whose.number)
        options: dict[str, Any] = {
            "label": label(whose.label), "color": own.colour, "hatch": own.hatch,
            "edgecolor": "white", "linewidth": 0,
        }  # fmt: skip
        if len(values) > 1:
            options |= _WHISKERS | {"xerr" if across else "yerr": spread}
        if across:
            axes.barh(at, mean, width, **options)
        else:
            axes.bar(at, mean, width, **options)
    shown = [*map(label, names.values())]
    if across:
        axes.set_yticks(places, shown)
        axes.set_ylim(len(names) - 0.4, -0.6)  # the first one on top
        axes.grid(visible=False, axis="y")
    else:
        long = sum(len(name) + 2 for name in shown) > _LETTERS
        axes.set_xticks(places, shown, **(_TILTED if long else {}))
        beside_few = max(0.0, _THIN - len(names)) / 2
        axes.set_xlim(-0.6 - beside_few, len(names) - 0.4 + beside_few)
        axes.grid(visible=False, axis="x")
    axes.set_xlabel(below)
    axes.set_ylabel(beside)


def _spread(groups: Sequence[Group], what: str = "Lines") -> str:
    if all(len(group.runs) == 1 for group in groups):
        return ""
    if what == "Lines":
        return (
            "Lines are means over runs, bands reach from the lowest to the highest run, as far as "
            "all runs of a line go. "
        )
    return "Bars are means over runs, whiskers reach from the lowest to the highest run. "


def _having(groups: Sequence[Group], has: Callable[[ReadRun], object]) -> list[Group]:
    """Of each group those runs that have it, if there are any."""
    found = (replace(group, runs=tuple(filter(has, group.runs))) for group in groups)
    return [group for group in found if group.runs]


def _whose(there: Sequence[Group], groups: Sequence[Group], what: str = "") -> str:
    """Whose data is there; of all ``groups``, some runs may be without."""
    without = sum(len(group.runs) for group in groups) - sum(len(group.runs) for group in there)
    left_out = f" {without} without {what} {'are' if without > 1 else 'is'} left out."
    named = "; ".join(one_line(group.who).strip() for group in there)
    return f"{named}.{left_out * (without > 0)}"
