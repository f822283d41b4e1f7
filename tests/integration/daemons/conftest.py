"""Fixtures of the tests with daemons."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import SUPPORT
from real_cluster import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A head and no workers yet; whatever is left at the end is killed."""
    there = Cluster(tmp_path)
    try:
        yield there
    finally:
        there.close()


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A user's folder with a workload whose rows can be counted."""
    folder = tmp_path / "code"
    folder.mkdir()
    shutil.copy(SUPPORT / "counting.py", folder)
    return folder
