"""The learning curve of a run as a PNG; drawing it can warn but never fails the run."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from head.records import evaluations
from head.records.episodes import WINDOW, Episodes
from head.records.place import STEPS, UPDATES, place
from head.records.run_folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_log = logging.getLogger(__name__)
WANTED = "ARTOS_CURVE"
"""With ``no`` in this variable runs draw no curve: it costs a second, more than a tiny run does."""
_MOST_DOTS = 8_000
_MOST_POINTS = 4_000
_WITHIN = (0.1, 0.115, 0.885, 0.78)
"""Left, bottom, width and height of what is within the axes, as shares of the picture."""
_DOT, _LINE, _GREY, _EVALUATION = "#8fb8de", "#0b3c6f", "#5f6b7a", "#c4532b"


def draw(folder: RunFolder) -> Path | None:
    """Draw ``curve.png`` from ``episodes.csv`` and ``evaluations.csv``, and return its path.

    None is returned where no curve is wanted (``ARTOS_CURVE=no``), and after any error (no font,
    disk full), which is logged in one line: a training run that has succeeded must not fail because
    its picture cannot be drawn.
    """
    if not _wanted():
        return None
    try:
        return _draw(folder)
    except Exception as error:
        _log.warning("the learning curve was not drawn: %s: %s", type(error).__name__, error)
        _draft(folder).unlink(missing_ok=True)
        return None


def import_ahead() -> None:
    """Import the drawing modules while there is nothing else to do; it takes half a second."""
    if not _wanted():
        return
    with suppress(Exception):  # ``draw`` logs the error
        import matplotlib.backends.backend_agg  # noqa: PLC0415
        import matplotlib.figure  # noqa: F401, PLC0415


def _wanted() -> bool:
    return os.environ.get(WANTED) != "no"


def _draft(folder: RunFolder) -> Path:
    return folder.curve.with_name(f".{folder.curve.name}.tmp")


def _draw(folder: RunFolder) -> Path:
    # Imported here: it takes half a second, and most runs need it only at their end.
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.ticker import EngFormatter  # noqa: PLC0415

    episodes, evaluated = Episodes.read(folder.episodes), evaluations.read(folder.evaluations)
    figure = Figure(figsize=(8, 4.5), dpi=130)  # a layout of its own would draw everything twice
    axes = figure.add_axes(_WITHIN)
    _plot(axes, episodes)
    if evaluated:  # means as points; a bar reaches a standard deviation up and down
        axes.errorbar(
            [place(each.steps, each.updates) for each in evaluated],
            [each.mean_return for each in evaluated],
            [each.std for each in evaluated],
            fmt="D", color=_EVALUATION, markersize=4, elinewidth=1, capsize=2,
            label=f"evaluation, {evaluated[-1].episodes} greedy episodes",
        )  # fmt: skip
    if len(episodes) or evaluated:
        axes.legend(loc="best", frameon=False, markerscale=3, labelcolor=_GREY)
    name = f"{folder.config.get('algorithm', 'run')} on {folder.config.get('env', 'environment')}"
    final = f": {episodes.running_mean()[-1]:.1f} over the last {WINDOW}" if len(episodes) else ""
    axes.set_title(name + final, loc="left", fontweight="bold")
    without_steps = bool(evaluated) and not evaluated[-1].steps
    axes.set_xlabel(UPDATES if without_steps else STEPS, color=_GREY)
    axes.set_ylabel("return per episode", color=_GREY)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(visible=True, color="#e3e7ec", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#c3cad3")
    axes.tick_params(colors=_GREY)
    draft = _draft(folder)
    FigureCanvasAgg(figure).print_figure(str(draft), format="png")
    draft.replace(folder.curve)
    return folder.curve


def _plot(axes: Axes, episodes: Episodes) -> None:
    if not len(episodes):
        axes.text(0.5, 0.5, "no episode ended", transform=axes.transAxes, ha="center", color=_GREY)
        return
    dots, points = _spread(len(episodes), _MOST_DOTS), _spread(len(episodes), _MOST_POINTS)
    axes.plot(
        episodes.steps[dots], episodes.returns[dots], ".", color=_DOT, markersize=3, alpha=0.45,
        markeredgewidth=0, label="episode", rasterized=True,
    )  # fmt: skip
    axes.plot(
        episodes.steps[points],
        episodes.running_mean()[points],
        color=_LINE,
        linewidth=2,
        label=f"mean of {WINDOW} episodes",
    )


def _spread(count: int, most: int) -> Any:
    """Up to ``most`` indices spread evenly over ``count``, always including the last."""
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).astype(np.int64)
