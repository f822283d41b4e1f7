"""A low priority is that of a process and of its session, and is undone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.host import priority

SESSIONS = Path("/proc/sys/kernel/sched_autogroup_enabled")


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process.pid
        process.kill()


def session_niceness(pid: int) -> int | None:
    """The kernel says ``/autogroup-17 nice 10``, and nothing of a session without a group.

    Such is one that was begun outside the container, or before sessions were weighed.
    """
    said = Path(f"/proc/{pid}/autogroup").read_text().split()
    return int(said[-1]) if said else None


@pytest.mark.skipif(not priority.may_raise(), reason="priorities cannot be raised here")
def test_it_is_lowered_by_so_much_and_undone(sleeper: int) -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    priority.lower(sleeper, 7)
    assert os.getpriority(os.PRIO_PROCESS, sleeper) == min(19, before + 7)
    priority.usual(sleeper)
    assert os.getpriority(os.PRIO_PROCESS, sleeper) == before


@pytest.mark.skipif(
    not (priority.may_raise() and os.geteuid() == 0 and SESSIONS.exists()),
    reason="sessions have no niceness here, or it cannot be changed at will",
)
def test_where_sessions_are_weighed_it_is_that_of_the_session_too(sleeper: int) -> None:
    if session_niceness(sleeper) is None:
        pytest.skip("even a new session has no group of its own here")
    priority.lower(sleeper, 7)
    assert session_niceness(sleeper) == 7
    priority.usual(sleeper)
    assert session_niceness(sleeper) == 0


@pytest.mark.skipif(not SESSIONS.exists(), reason="sessions have no niceness here")
def test_a_session_that_a_process_only_belongs_to_is_left_alone() -> None:
    with subprocess.Popen(["sleep", "60"], process_group=0) as process:
        try:
            before = session_niceness(process.pid)
            priority.lower(process.pid, 7)
            assert session_niceness(process.pid) == before
        finally:
            process.kill()


def test_who_has_ended_is_no_error() -> None:
    with subprocess.Popen(["true"], start_new_session=True) as process:
        process.wait()
    priority.lower(process.pid)
    priority.usual(process.pid)


@pytest.mark.parametrize(
    ("share", "rivals", "niceness"),
    [(0.5, 1.0, 0), (1.0, 1.0, 0), (0.1, 1.0, 10), (0.1, 0.5, 13), (0.01, 1.0, 19), (0.0, 1.0, 19)],
)
def test_the_niceness_for_a_share(share: float, rivals: float, niceness: int) -> None:
    """A level weighs a quarter more than the next one (sched(7))."""
    assert priority.niceness_for(share, rivals) == niceness
