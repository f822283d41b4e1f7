"""Fixtures of the pipeline tests: a user's folder, and real `artos` processes in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from real_runs import Artos, shared_memory

HERE = Path(__file__).parent


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's folder with the algorithm that keeps book of its gradients."""
    shutil.copy(HERE / "book.py", tmp_path)
    return tmp_path


@pytest.fixture
def start(home: Path) -> Iterator[Callable[..., Artos]]:
    """Start `artos ARGUMENTS` in the user's folder; killed with all it started in the end."""
    started: list[Artos] = []

    def begin(*arguments: object, **environment: str) -> Artos:
        started.append(Artos(home, arguments, **environment))
        return started[-1]

    yield begin
    for process in started:
        process.end()
    for process in started:
        assert not process.survivors()
    if shared_memory():
        begin("clean").wait()
