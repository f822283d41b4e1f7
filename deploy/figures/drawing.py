"""How figures look, and how they are written: SVG and PNG, the same bytes for the same runs."""

from __future__ import annotations

import io
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

from artos.system.printable import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Told apart also by those who see fewer colours (Okabe and Ito 2008)."""
_DASHES = ("-", "--", "-.", ":")
_HATCHES = ("", "////", "....", "xxxx")
_STYLE: Any = {
    "text.parse_math": False,  # names of runs are text, whatever is in them
    "text.usetex": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "artos",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e7ec",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
}
_DPI = 200
WIDTH = 4.5
"""Inches: on a page of two columns, where it is 3.3 wide, the smallest letters have 6 points."""
SIZE = (WIDTH, 2.9)
"""Inches, without the legend, for which a figure is made higher."""
_LEGENDS = ((4, 110), (3, 110), (2, 110), (1, 110), (1, 70), (1, 50), (1, 30))
"""Columns of a legend, and letters of its lines: the first that fit are taken."""
Format = Literal["svg", "png"]


@contextmanager
def _styled() -> Iterator[None]:
    from matplotlib import rc_context  # noqa: PLC0415

    with rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a box stands for such a character
        yield


def drawn(
    draw: Callable[[Axes], None], kinds: tuple[Format, ...], size: tuple[float, float] = SIZE
) -> dict[Format, bytes]:  # fmt: skip
    """What ``draw`` makes of axes of that size (inches), as files of these kinds."""
    with _styled():
        figure = composed(draw, size)
        found: dict[Format, bytes] = {}
        for kind in kinds:
            with io.BytesIO() as file:
                figure.savefig(file, format=kind, metadata={"Date": None} if kind == "svg" else {})
                found[kind] = file.getvalue()
        return found


def composed(draw: Callable[[Axes], None], size: tuple[float, float] = SIZE) -> Figure:
    """What ``draw`` makes of axes of that size (inches).

    What it gives a label is explained below them, where that hides nothing: the figure is as much
    higher as this takes.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=size, dpi=_DPI, layout="constrained")
    draw(axes := figure.add_subplot())
    handles, texts = axes.get_legend_handles_labels()
    if not handles:
        return figure
    for columns, letters in _LEGENDS:
        for unfit in figure.legends:
            unfit.remove()
        legend = figure.legend(
            handles, [fill(text, letters) for text in texts], loc="outside lower center",
            ncols=min(columns, len(handles)), frameon=False, fontsize=8,
        )  # fmt: skip
        needed = legend.get_window_extent()
        if needed.width <= figure.bbox.width:
            break
    figure.set_figheight(size[1] + needed.height / figure.dpi)
    return figure


@dataclass(frozen=True)
class Look:
    """How a curve or bar looks: no two curves side by side have the same dashes."""

    colour: str
    dashes: str
    hatch: str


def look(number: int) -> Look:
    """That of the curve or bar of this number; the first 28 differ."""
    return Look(
        _COLOURS[number % len(_COLOURS)],
        _DASHES[number % len(_DASHES)],
        _HATCHES[number // len(_COLOURS) % len(_HATCHES)],
    )


_MOST, _END = 110, 50  # characters


def label(text: str) -> str:
    """Text of a run's as a label: on one line, and never hidden, as what begins with ``_`` is.

    Of a long one there are both ends, or it would leave no room for what it is the label of.
    """
    plain = one_line(text)
    if len(plain) > _MOST:
        plain = f"{plain[:_END]} … {plain[-_END:]}"
    return f" {plain}" if plain.startswith("_") else plain


def labels_apart(texts: Sequence[str]) -> list[str]:
    """These texts as labels; those that differ only in what is left out are numbered."""
    cut = {text: label(text) for text in texts}
    same = Counter(cut.values())
    seen = Counter[str]()
    for text, short in cut.items():
        if same[short] > 1:
            seen[short] += 1
            cut[text] = f"{short} ({seen[short]})"
    return [cut[text] for text in texts]
