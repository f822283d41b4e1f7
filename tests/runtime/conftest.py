"""Fixtures of the tests of member processes."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "workers"))  # for when CRIU can be tested

_PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture
def atari() -> None:
    """Skip where the extra is not installed."""
    if importlib.util.find_spec("ale_py") is None:
        pytest.skip("needs the extra: pip install 'artos[atari]'")


@pytest.fixture
def adopting() -> Iterator[None]:
    """Adopt orphans, as the supervisor does."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    yield
    prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
