"""What a sleeping process is woken by is for its first thread alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from workers.actors.copies import wake

_SLEEPS = """
import signal, sys, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
print("blocked", flush=True)
sys.stdin.readline()
print(signal.sigwait({signal.SIGUSR1}).name, flush=True)
"""
"""A thread of the environment takes signals to the process; the first thread is not asleep yet."""


@pytest.mark.processes
def test_a_thread_of_the_environment_does_not_take_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _SLEEPS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "blocked\n"
            wake(process.pid)
            said, _ = process.communicate("\n", timeout=60)
            assert said == "SIGUSR1\n"
        finally:
            process.kill()


def test_one_that_has_ended_is_not_woken() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    wake(process.pid)
