"""`artos dashboard` as a process, and its page in a browser."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chromium import Tab
from helpers import ROOT

SECONDS = 300.0
FAULT = "document.getElementById('fault')?.textContent ?? ''"  # the page may not be there yet
TEXT = "document.getElementById('view').innerText"
DRAWN = """[...document.querySelectorAll('canvas')].some((canvas) => {
  const {width, height} = canvas;
  const data = canvas.getContext('2d').getImageData(0, 0, width, height).data;
  return new Set(new Uint32Array(data.buffer)).size > 5;
})"""
_READY = "document.querySelector('#view[data-ready]') !== null"


def command(*words: str | Path) -> list[str]:
    """An `artos` command."""
    return [sys.executable, "-m", "deploy.cli", *map(str, words)]


@contextmanager
def started(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended with the block."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(SECONDS)
        if process.stdout:
            process.stdout.close()


@contextmanager
def serving(*words: str | Path) -> Iterator[str]:
    """The address of a dashboard that is there until the end of the block."""
    whole = command("dashboard", *words, "--port", "0", "--json")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with started(subprocess.Popen(whole, stdout=subprocess.PIPE, env=env)) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["address"]


def look(tab: Tab, address: str, view: str, *, copied: bool = False) -> str:
    """Open a view as a new page; returns its text. It is drawn, says no fault and logs none.

    Of a run whose copy is still under way, ``copied``, it may have asked too early, and again.
    """
    tab.open("about:blank")
    tab.wait("location.href === 'about:blank'")
    tab.open(f"{address}#/{view}")
    tab.wait(_READY, SECONDS)
    assert tab.value(FAULT) == ""
    assert [error for error in tab.errors if not (copied and "503" in error)] == []
    return str(tab.value(TEXT))
