"""What a learner that keeps book says it learned from (``tests/support/counting.py``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

Book = np.ndarray[Any, np.dtype[np.int64]]


def book_of(run: Path) -> Book:
    """Rows (actor, step, identity of the environment, its count), in the order of learning."""
    manifest = json.loads((run / "checkpoint" / "manifest.json").read_text())
    arrays = safetensors.numpy.load_file(run / "checkpoint" / manifest["file"])
    return arrays["learner.book"][: int(arrays["learner.count"][0])]


def assert_each_row_once(run: Path, rows: int, actors: int, lives: int = 1) -> None:
    """Every actor's rows from 0 on, no gap and no repeat, also by what environments counted.

    In every one of the run's ``lives`` they begin with 0.
    """
    book = book_of(run)
    assert len(book) == rows
    for actor in range(actors):
        _, step, identity, count = book[book[:, 0] == actor].T
        assert len(step) == rows // actors
        begins = np.flatnonzero(step == 0)
        assert len(begins) == lives
        for life in np.split(step, begins[1:]):
            np.testing.assert_array_equal(life, np.arange(len(life)))
        same_process = identity[1:] == identity[:-1]
        np.testing.assert_array_equal(np.diff(count)[same_process], 1)


def shown_to(run: Path, actor: int) -> tuple[list[int], list[int]]:
    """Who showed the rows that were learned from, and what; each row was, once and in order."""
    book = book_of(run)
    _, step, identity, shown = book[book[:, 0] == actor].T
    np.testing.assert_array_equal(step, np.arange(len(step)))
    return identity.tolist(), shown.tolist()


def episodes(run: Path) -> list[str]:
    """Return and length of each; which of two actors told first of one is chance."""
    _, *lines = (run / "episodes.csv").read_text().splitlines()
    return sorted(line.partition(",")[2] for line in lines)


def places(run: Path, actor: int) -> list[int]:
    """The environments whose rows of an actor were learned from, in order."""
    book = book_of(run)
    identities = book[book[:, 0] == actor][:, 2].tolist()
    return list(dict.fromkeys(identities))
