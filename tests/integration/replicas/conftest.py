"""One process that has imported what learners need, from which all of them are forked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from helpers import PATIENCE
from together import Together

from artos.runtime.preload import Preloaded
from artos.specs.reference import Reference


@pytest.fixture(scope="module")
def preloaded() -> Iterator[Preloaded]:
    """Forks the processes of a module; it adopts orphans, so it must not stay for others."""
    with Preloaded(Reference("triggers.algorithms.ppo:workload", {}, "")) as found:
        end = time.monotonic() + PATIENCE
        # What a test finds running before it begins, it knows by its command.
        while b"artos.runtime.preload" not in Path(f"/proc/{found.pid}/cmdline").read_bytes():
            assert time.monotonic() < end
            time.sleep(0.001)
        yield found


@pytest.fixture
def together(preloaded: Preloaded, tmp_path: Path) -> partial[Together]:
    """Make the memory of a run of a workload, and so many replicas."""

    def make(workload: str, replicas: int, **settings: Any) -> Together:
        return Together(preloaded.start, workload, replicas, tmp_path, **settings)

    return partial(make)
