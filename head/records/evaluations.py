"""Evaluations of a run: what greedy episodes of its versions gave."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np

from artos.protocol.invocations import Done
from artos.system.regular_file import contents
from head.records.reading import reading


class Evaluated(msgspec.Struct, frozen=True):
    """One version's whole episodes: undiscounted sums of raw rewards.

    ``steps`` and ``updates`` are what the run had made when the version was due, ``std`` is
    of these episodes (divided by their number), ``mean_length`` in steps of an environment.
    ``seconds`` is how long they took.
    """

    version: int
    steps: int
    updates: int
    mean_return: float
    std: float
    episodes: int
    mean_length: float
    seconds: float

    @classmethod
    def of(cls, done: Done, steps: int, updates: int) -> Evaluated:
        """What the evaluator reported of a version that was due after so many steps and updates."""
        mean, std = float(np.mean(done.returns)), float(np.std(done.returns))
        length = float(np.mean(done.lengths))
        seconds = round(done.seconds, 6)
        return cls(done.version, steps, updates, mean, std, len(done.returns), length, seconds)


COLUMNS = Evaluated.__struct_fields__
"""Columns of ``evaluations.csv``, which has a row for each evaluation."""


def lines(found: Iterable[Evaluated]) -> bytes:
    """Rows of ``evaluations.csv``, without its header."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(map(msgspec.structs.astuple, found))
    return out.getvalue().encode()


def read(path: Path) -> list[Evaluated]:
    """The rows of ``evaluations.csv``, oldest first; no file: none; a partial row is left out."""
    if not path.exists():
        return []
    with reading(path):
        text = contents(path).rpartition(b"\n")[0].decode()
        rows = csv.DictReader(io.StringIO(text))
        return [msgspec.convert(row, Evaluated, strict=False) for row in rows]
