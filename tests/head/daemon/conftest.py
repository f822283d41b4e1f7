"""What the tests of the scheduler share."""

from __future__ import annotations

import pytest
from worlds import World


@pytest.fixture
def world() -> World:
    """A schedule without processes."""
    return World()
