"""The rows of the README's table, as ``evaluation/results/readme.toml`` lists them."""

from __future__ import annotations

import msgspec

from evaluation.core.sources import ROOT

RESULTS = ROOT / "evaluation" / "results"
LINES = RESULTS / "readme.toml"


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the README: ``result`` with ``{0}``, ``{1}``, ... for its figures.

    Each figure is ``[case]``, the median of a case of the benchmark, with its unit, or ``[case,
    other]``, that of the ratio of two, by repetition. A case that starts with a colon is of
    ``group``. ``other`` may be a rival without its way, such as ``Ray`` for ``Ray, 2 threads``: its
    best then, which is the way that the benchmark itself compared with.
    """

    measured: str
    benchmark: str
    result: str
    figures: tuple[tuple[str, ...], ...]
    group: str = ""


class Lines(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rows of the README, in their order."""

    line: tuple[Line, ...]


def lines() -> tuple[Line, ...]:
    """The rows that the README has."""
    return msgspec.toml.decode(LINES.read_bytes(), type=Lines).line
