"""Fixtures of the tests that drive whole runs with elastic actors."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from elastic_runs import ElasticRun, inhabitants
from helpers import SUPPORT
from real_runs import shared_memory

HERE = Path(__file__).parent


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's folder with the algorithms of these tests."""
    for file in (HERE / "counted.py", SUPPORT / "drawn.py", HERE / "hindered.py"):
        shutil.copy(file, tmp_path)
    return tmp_path


@pytest.fixture
def start(home: Path) -> Iterator[Callable[..., ElasticRun]]:
    """Start `artos run ARGUMENTS` in the user's folder; killed with all it started in the end."""
    started: list[ElasticRun] = []

    def begin(
        *arguments: object, environment: Mapping[str, str] | None = None, **settings: object
    ) -> ElasticRun:
        # What waits as an image is to stay one for as long as a test holds the learner.
        chosen = {"prewarm": "off", **settings}
        started.append(ElasticRun(home, arguments, chosen, **(environment or {})))
        return started[-1]

    yield begin
    for run in started:
        run.end()
    for process in inhabitants(home):
        process.kill()
    if shared_memory():
        ElasticRun.clean(home)
