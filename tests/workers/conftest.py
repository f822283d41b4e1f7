"""Fixtures of the tests about the life of actor processes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from elastic import Stage

from artos.system.shm import shm_root


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Driver, image store and subjects, on tmpfs; nothing of it is left afterwards."""
    folder = shm_root() / "stage"
    folder.mkdir()
    try:
        with Stage(folder) as here:
            yield here
    finally:
        shutil.rmtree(folder)
