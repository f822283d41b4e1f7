"""A pool's folder and clock for tests in one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from artos.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "pool"
    assert not (tmp_path / "pool").exists(), "the last member removes the table"
