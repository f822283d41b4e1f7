"""How figures look, and how they are written: SVG and PNG, the same bytes for the same runs."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from artos.system.printable import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Told apart also by those who see fewer colours (Okabe and Ito 2008)."""
DASHES = ("-", "--", "-.", ":")
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
SIZE = (6.4, 3.6)  # inches
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
    from matplotlib.figure import Figure  # noqa: PLC0415

    with _styled():
        figure = Figure(figsize=size, dpi=_DPI, layout="constrained")
        draw(figure.add_subplot())
        found: dict[Format, bytes] = {}
        for kind in kinds:
            with io.BytesIO() as file:
                figure.savefig(file, format=kind, metadata={"Date": None} if kind == "svg" else {})
                found[kind] = file.getvalue()
        return found


def style(number: int) -> tuple[str, str]:
    """Colour and dashes of a curve."""
    return COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]


_END = 50  # characters


def label(text: str) -> str:
    """Text of a run's as a label: on one line, and never hidden, as what begins with ``_`` is.

    Of a long one there are both ends, or it would leave no room for what it is the label of.
    """
    plain = one_line(text)
    if len(plain) > 2 * _END:
        plain = f"{plain[:_END]} … {plain[-_END:]}"
    return f" {plain}" if plain.startswith("_") else plain
