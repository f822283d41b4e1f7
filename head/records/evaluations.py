"""Evaluations of a run: the returns of greedy episodes with its versions."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np

from artos.errors import CheckpointFault
from artos.protocol.invocations import Done
from artos.runs import checkpoint
from artos.system.regular_file import contents
from head.records.reading import reading


class Evaluated(msgspec.Struct, frozen=True):
    """Whole episodes with one version of the weights; returns are undiscounted, of raw rewards."""

    version: int
    steps: int
    """Environment steps that the run had made when the version was due."""
    updates: int
    """Updates that the run had made then."""
    mean_return: float
    std: float
    """The standard deviation of the returns (divided by their number)."""
    episodes: int
    mean_length: float
    """In steps of an environment."""
    seconds: float
    """How long the episodes took."""

    @classmethod
    def of(cls, done: Done, steps: int, updates: int) -> Evaluated:
        """What the evaluator reported of a version that was due after so many steps and updates."""
        mean, std = float(np.mean(done.returns)), float(np.std(done.returns))
        length = float(np.mean(done.lengths))
        seconds = round(done.seconds, 6)
        return cls(done.version, steps, updates, mean, std, len(done.returns), length, seconds)

    @classmethod
    def of_best(cls, folder: Path) -> Evaluated | None:
        """That of the version kept in ``folder``; None if there is none, or it is damaged."""
        # The place of a damaged one is free for the next.
        with suppress(CheckpointFault, msgspec.ValidationError):
            return msgspec.convert(checkpoint.read_manifest(folder).evaluated, cls)
        return None


COLUMNS = Evaluated.__struct_fields__
"""Columns of ``evaluations.csv``, which has a row for each evaluation."""


def lines(found: Iterable[Evaluated]) -> bytes:
    """Rows of ``evaluations.csv``, without its header."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(map(msgspec.structs.astuple, found))
    return out.getvalue().encode()


def read(path: Path) -> list[Evaluated]:
    """The rows of ``evaluations.csv``, oldest first, without a partial one; none without a file."""
    if not path.exists():
        return []
    with reading(path):
        text = contents(path).rpartition(b"\n")[0].decode()
        rows = csv.DictReader(io.StringIO(text))
        return [msgspec.convert(row, Evaluated, strict=False) for row in rows]
