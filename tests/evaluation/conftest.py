"""Fixtures of the tests of benchmarks."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "workers"))  # for when CRIU can be tested


@pytest.fixture
def atari() -> None:
    """Skip where the extra is not installed."""
    if importlib.util.find_spec("ale_py") is None:
        pytest.skip("needs the extra: pip install 'artos[atari]'")
