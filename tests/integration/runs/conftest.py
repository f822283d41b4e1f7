"""Fixtures of the tests that start real runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from helpers import SUPPORT
from inline_runs import commanded
from real_runs import Artos, Outcome, shared_memory

HERE = Path(__file__).parent


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's folder with the toy environments and algorithms of these tests."""
    for name in ("toys_to_run.py", "hungry.py", "faulty_algorithms.py"):
        shutil.copy(HERE / name, tmp_path)
    shutil.copy(SUPPORT / "counting.py", tmp_path)
    return tmp_path


@pytest.fixture
def start(home: Path) -> Iterator[Callable[..., Artos]]:
    """Start `artos ARGUMENTS` in the user's folder; killed with all it started in the end."""
    started: list[Artos] = []

    def begin(*arguments: object, within: Sequence[str] = (), **environment: str) -> Artos:
        started.append(Artos(home, arguments, within=within, **environment))
        return started[-1]

    yield begin
    for process in started:
        process.end()
    for process in started:
        assert not process.survivors()
    if shared_memory():
        begin("clean").wait()


@pytest.fixture
def artos(start: Callable[..., Artos], home: Path) -> Callable[..., Outcome]:
    """Run `artos ARGUMENTS` to its end.

    What one process does all of is done in this one: it takes seconds to start another.
    """

    def run(*arguments: object, **environment: str) -> Outcome:
        if not environment and (arguments[0] == "eval" or "--inline" in arguments):
            return commanded(home, arguments)
        return start(*arguments, **environment).wait()

    return run
