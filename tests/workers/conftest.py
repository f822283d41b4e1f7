"""Fixtures of the tests about the life of actor processes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress

import pytest
from elastic import Stage

from artos.buffer.segment import shm_root


@pytest.fixture(autouse=True)
def _orphans_of_other_tests_are_buried() -> None:
    """Tests here count children; one that adopted orphans may have left some that are dead."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


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
