"""Every test runs in shared memory of its own and must leave nothing behind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import footprint, keep_denormals, leaked

_SHM = Path("/dev/shm")
_OWN = "artos-tests."


def pytest_configure(config: pytest.Config) -> None:
    """Keep apart from runs of the user's: a folder of shared memory for this process's tests."""
    del config
    for left in _SHM.glob(f"{_OWN}*"):
        if not Path("/proc", left.name.removeprefix(_OWN)).exists():
            shutil.rmtree(left, ignore_errors=True)
    own = _SHM / f"{_OWN}{os.getpid()}"
    own.mkdir(mode=0o700, exist_ok=True)
    os.environ["ARTOS_SHM"] = str(own)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove that folder."""
    del config
    shutil.rmtree(os.environ.pop("ARTOS_SHM"), ignore_errors=True)


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    """Fails a test that leaves processes, segments, threads, ZeroMQ contexts or sockets."""
    before = footprint()
    yield
    keep_denormals()
    assert not (left := leaked(before)), "left behind:\n  " + "\n  ".join(left)
