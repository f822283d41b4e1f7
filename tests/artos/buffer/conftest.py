"""Fixtures of the buffer tests: shared memory that is gone afterwards, whatever happened."""

from collections.abc import Iterator

import pytest

from artos.buffer.shm_folder import ShmFolder


@pytest.fixture
def folder() -> Iterator[ShmFolder]:
    """A folder for segments, removed with all of them when the test ends."""
    made = ShmFolder.create("test")
    yield made
    made.remove()
    assert not made.path.exists()
