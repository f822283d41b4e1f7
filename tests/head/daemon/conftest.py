"""Fixtures of the tests of the head daemon's decisions."""

from __future__ import annotations

import pytest
from worlds import World


@pytest.fixture
def world() -> World:
    """A schedule without processes."""
    return World()
