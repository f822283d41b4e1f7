"""Fixtures of the tests with a cluster on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import Cluster
from helpers import SUPPORT

HERE = Path(__file__).parent
RUNS = HERE.parent / "runs"
REPLAYING = (RUNS / "replaying.py", RUNS / "checked_replay.py")
SHARED = (
    "counting.py",
    "pennies.py",
    "asking.py",
    "graded.py",
    "drawing.py",
    "drawn.py",
    "late.py",
)
USERS = (
    "staged.py", "witness.py", "publishing.py", "episodes.py", "journey.py", "alternating.py",
    "whole.py",
)  # fmt: skip


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A user's folder on the head."""
    folder = tmp_path / "code"
    folder.mkdir()
    shared = (SUPPORT / name for name in SHARED)
    for file in (*shared, *(HERE / name for name in USERS), *REPLAYING):
        shutil.copy(file, folder)
    return folder


@pytest.fixture
def cluster(tmp_path: Path, code: Path) -> Iterator[Cluster]:
    """A head and no workers yet; nothing may be left of it."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    there = Cluster(folder, code)
    try:
        yield there
    finally:
        there.close()
