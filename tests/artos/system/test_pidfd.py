"""A process held by descriptor: its end is seen, and a signal reaches it or nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from helpers import PATIENCE

from artos.system.pidfd import PidFd
from artos.system.process_list import find

WORD = "artos-test-of-pidfd"

pytestmark = pytest.mark.processes


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", WORD]) as process:
        yield process
        process.kill()


def test_its_end_is_seen_before_and_after_it_is_reaped(sleeper: subprocess.Popen[bytes]) -> None:
    with PidFd(sleeper.pid) as process:
        assert (process.has_ended(), process.wait(0.0)) == (False, False)
        process.signal(signal.SIGTERM)
        assert process.wait(PATIENCE)
        assert sleeper.wait(PATIENCE) == -signal.SIGTERM
        assert process.has_ended()
        process.signal(signal.SIGKILL)  # reaches nobody, whoever has the number now
    process.close()
    assert process.fileno() == -1


def test_nobody_is_held_by_a_number_that_is_free(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.kill()
    sleeper.wait(PATIENCE)
    with pytest.raises(ProcessLookupError):
        PidFd(sleeper.pid)


def test_processes_are_found_by_their_command_lines(sleeper: subprocess.Popen[bytes]) -> None:
    (found,) = find(lambda words: WORD in words)
    with found:
        assert found.pid == sleeper.pid
    assert [*find(lambda words: False)] == []
    assert os.getpid() not in {each.pid for each in opened(find(lambda words: "pytest" in words))}


def opened(found: Iterator[PidFd]) -> Iterator[PidFd]:
    for each in found:
        with each:
            yield each


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_who_got_the_number_of_one_that_was_found_is_let_alone(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends between the look at its command line and the opening of its descriptor."""
    before = descriptors()
    monkeypatch.setattr(psutil.Process, "is_running", lambda process: process.pid != sleeper.pid)
    assert [*find(lambda words: WORD in words)] == []
    assert descriptors() == before
