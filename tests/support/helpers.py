"""What all tests share: what a process leaves behind, and processes that end with their test."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from artos.buffer.shm_folder import PREFIX
from artos.system.shm import shm_root

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
SUPPORT = TESTS / "support"
"""The checkout under test."""

PATIENCE = 240.0
"""Seconds; generous, for a test never waits that long unless it fails: machines are loaded."""
_END_SECONDS = 5.0
_KEPT_THREADS = {"tqdm_monitor"}
"""A library keeps one for as long as its process lives, once it has shown progress."""


def footprint() -> dict[str, set[str]]:
    """What this process holds that must not outlive a test, by kind, as names to print."""
    return {
        "child process": {f"{pid} {command}" for pid, command in children().items()},
        "shared-memory folder": {path.name for path in shm_root().glob(f"{PREFIX}*")},
        "thread": {
            f"{t.name} ({t.ident})" for t in threading.enumerate() if t.name not in _KEPT_THREADS
        },
        "ZeroMQ context": set(_zmq_threads()),
        "socket": set(_sockets()),
    }


def leaked(before: Mapping[str, set[str]]) -> list[str]:
    """What is there now and was not before, in words; garbage does not count."""
    found = _difference(before)
    if found:
        for thread in threading.enumerate():
            if f"thread: {thread.name} ({thread.ident})" in found:
                thread.join(_END_SECONDS)  # what has done its work may need a moment to end
        gc.collect()
        found = _difference(before)
    return found


def unrolled(runs: Iterable[Sequence[int]]) -> list[int]:
    """``actors_by_update`` with an entry for each update."""
    return [actors for updates, actors in runs for _ in range(updates)]


def keep_denormals() -> None:
    """Undo what a run in this process switched on: tiny floats count as zero, also for others."""
    if sys.float_info.min / 2 == 0 and "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)


def _difference(before: Mapping[str, set[str]]) -> list[str]:
    after = footprint()
    return [f"{kind}: {name}" for kind in after for name in sorted(after[kind] - before[kind])]


def children() -> dict[int, str]:
    """Processes whose parent is this one, dead ones too, by process id; how they were called."""
    called = {pid: _command(pid) for pid in _children_of(os.getpid())}
    # There is one of these for the whole process, kept by multiprocessing itself.
    return {pid: line for pid, line in called.items() if "resource_tracker" not in line}


def below(pid: int, *, recursive: bool = True) -> list[psutil.Process]:
    """Its children, and theirs; not by psutil, which reads of every process of the machine."""
    found = []
    for child in _children_of(pid):
        with suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(child))
        if recursive:
            found += below(child)
    return found


def _children_of(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):  # it may end meanwhile
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, _text(task / "children").split())
    return found


def _command(pid: int) -> str:
    return _text(Path(f"/proc/{pid}/cmdline")).replace("\0", " ").strip()


def _zmq_threads() -> Iterator[str]:
    # They are native threads which Python does not list; they live as long as their context.
    for task in Path("/proc/self/task").iterdir():
        if (name := _text(task / "comm").strip()).startswith("ZMQ"):
            yield f"{name} ({task.name})"


def _sockets() -> Iterator[str]:
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = str(link.readlink())
        except FileNotFoundError:
            continue
        if target.startswith("socket:"):
            yield target


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@contextmanager
def python(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A Python process that imports from this checkout; killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{SUPPORT}"},
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()
            process.wait(_END_SECONDS)
