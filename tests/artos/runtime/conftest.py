"""Fixtures of the tests of member processes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

_PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture
def adopting() -> Iterator[None]:
    """Adopt orphans, as the supervisor does."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    yield
    prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
