"""Fixtures of the tests that start real runs."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from helpers import SUPPORT
from inline_runs import commanded
from real_runs import Artos, Outcome, shared_memory

from artos.protocol.invocations import Invoke
from artos.specs.members import Member
from deploy.local.inline import Inline
from head.run.coordination.coordinator import Coordinator

HERE = Path(__file__).parent
Turn = Callable[[Inline, Coordinator, int, Invoke], None]


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


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Ask the next run to stop while its n-th invocation is carried out."""
    run_one: Turn = Inline._run_one

    def at(count: int) -> None:
        left = [count]

        def counted(inline: Inline, coordinator: Coordinator, member: Member, call: Invoke) -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGTERM)
            run_one(inline, coordinator, member, call)

        monkeypatch.setattr(Inline, "_run_one", counted)

    return at
