"""A process of ours ignores SIGTERM; processes that it makes do not."""

from __future__ import annotations

import os
import subprocess
import sys

from helpers import PATIENCE, ROOT

CODE = """
import multiprocessing, os, signal, subprocess, time
from artos.system.child import ignore_sigterm
ignore_sigterm()
os.kill(os.getpid(), signal.SIGTERM)
started = subprocess.Popen(["sleep", "300"])
started.terminate()
here, there = multiprocessing.Pipe()
def sleep():
    there.send("up")
    time.sleep(300)
forked = multiprocessing.get_context("fork").Process(target=sleep)
forked.start()
here.recv()
forked.terminate()
forked.join()
print(started.wait(), forked.exitcode)
"""


def test_it_and_what_it_makes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=PATIENCE, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout.split() == ["-15", "-15"]
