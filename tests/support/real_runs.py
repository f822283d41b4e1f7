"""Real `artos` processes for tests: started in a folder of their own, watched, killed."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import safetensors.numpy
from helpers import PATIENCE, ROOT, below
from numpy.typing import NDArray

from artos.buffer.shm_folder import PREFIX
from artos.specs.members import Member
from artos.system.shm import shm_root
from deploy.dashboard.timeline import Timeline, timeline
from triggers.journal_index import JournalIndex

TINY = ("--set", "envs=1", "--set", "steps=16", "--set", "minibatches=1", "--set", "epochs=1")
"""Settings that keep PPO's rounds short."""


@dataclass(frozen=True)
class Outcome:
    """How an `artos` process ended."""

    status: int
    out: str
    err: str

    @property
    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


class Artos:
    """One `artos` process; ``within`` is a command that runs it, ``typed`` what it is told."""

    def __init__(
        self, folder: Path, arguments: tuple[object, ...], *, within: Sequence[str] = (),
        typed: str = "", **environment: str,
    ) -> None:  # fmt: skip
        # Files, not pipes: a child that outlived its parent must not keep a reader waiting.
        self._out, self._err = folder / "stdout.txt", folder / "stderr.txt"
        told = folder / "stdin.txt"
        told.write_text(typed)
        with self._out.open("w") as out, self._err.open("w") as err, told.open() as stdin:
            self.process = subprocess.Popen(
                [*within, sys.executable, "-P", "-m", "deploy.cli", *map(str, arguments)],
                stdin=stdin, stdout=out, stderr=err, cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment},
                start_new_session=True,
            )  # fmt: skip
        self._known: dict[int, psutil.Process] = {}

    @property
    def said(self) -> str:
        """What it printed for the user so far."""
        return self._err.read_text()

    def wait(self, seconds: float = PATIENCE) -> Outcome:
        """Wait until it has ended."""
        status = self.process.wait(seconds)
        return Outcome(status, self._out.read_text(), self.said)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it alone."""
        self.process.send_signal(number)

    def member(self, member: Member) -> psutil.Process | None:
        """The process of a member, if it runs."""
        # By its log: clones and forks have the command line of their template.
        log = f"{str(member).replace(' ', '-')}.log"
        return next((p for p in self.children() if _log_of(p) == log), None)

    def kill(self, member: Member) -> None:
        """Kill the process of a member, once it runs."""
        self.until(lambda: self._killed(member))

    def _killed(self, member: Member) -> bool:
        if (process := self.member(member)) is not None:
            with suppress(psutil.NoSuchProcess):  # it was just being replaced
                process.kill()
                return True
        return False

    def children(self) -> list[psutil.Process]:
        """Its descendants that run."""
        found = below(self.process.pid)
        self._known |= {p.pid: p for p in found}
        return found

    def survivors(self) -> list[psutil.Process]:
        """Descendants seen at any time that still run."""
        return [p for p in self._known.values() if runs(p)]

    def end(self) -> None:
        """Kill it and whatever it started."""
        self.children()
        self.process.kill()
        self.process.wait(PATIENCE)
        for process in self.survivors():
            process.kill()

    def until(self, condition: Callable[[], object], seconds: float = PATIENCE) -> None:
        """Wait until something observable holds while the process runs."""
        end = time.monotonic() + seconds
        while not condition():
            self.children()
            assert self.process.poll() is None, f"ended early: {self.wait()}"
            assert time.monotonic() < end, f"never came: {condition}\n{self.said}"
            time.sleep(0.005)


def _log_of(process: psutil.Process) -> str:
    """The name of its log; "" if it is no process of ours."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE or "-P" not in process.cmdline():
            return ""
        return Path(f"/proc/{process.pid}/fd/1").readlink().name
    except (psutil.Error, OSError):
        return ""


def runs(process: psutil.Process) -> bool:
    """Whether it is alive; one that nobody has reaped yet is not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def shared_memory() -> list[str]:
    """Folders of runs in shared memory."""
    return sorted(path.name for path in shm_root().glob(f"{PREFIX}*"))


def whole_timeline(run: Path) -> Timeline:
    """What the dashboard shows of a run."""
    with JournalIndex(run / "journal.jsonl") as index:
        return timeline(index, 0.0, math.inf)


def journal(run: Path) -> list[dict[str, Any]]:
    """All lines of a run's journal so far; a last one half written is left out."""
    path = run / "journal.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def kill_each(process: Artos, run: Path, victims: Iterable[Member], others: Iterable[str]) -> None:
    """Kill members of a run one after the other; each time all of ``others`` do more afterwards.

    Then the run is stopped.
    """
    names = [*others]

    def done() -> dict[str, int]:
        by = [line["by"] for line in journal(run) if "done" in line]
        return {name: by.count(name) for name in names}

    def all_beyond(before: dict[str, int]) -> bool:
        return all(n > before[name] + 2 for name, n in done().items())

    process.until(lambda: min(done().values()) > 3)
    for member in victims:
        before = done()
        process.kill(member)
        process.until(partial(all_beyond, before))
    process.signal(signal.SIGINT)
    ended = process.wait()
    assert ended.status == 130, ended.err


def updates(run: Path) -> int:
    """Updates that the journal says are done."""
    return sum(line.get("by") == "learner" for line in journal(run))


def checkpointed(run: Path) -> dict[str, NDArray[Any]]:
    """All arrays of a run's newest checkpoint."""
    folder = run / "checkpoint"
    manifest = json.loads((folder / "manifest.json").read_text())
    arrays: dict[str, NDArray[Any]] = safetensors.numpy.load_file(folder / manifest["file"])
    return arrays


def book_of(run: Path) -> NDArray[np.int64]:
    """What the newest checkpoint says was learned from: rows (actor, step, identity, count)."""
    arrays = checkpointed(run)
    book: NDArray[np.int64] = arrays["learner.book"][: int(arrays["learner.count"][0])]
    return book


def assert_each_row_once(run: Path, rows: int) -> None:
    """Every actor's rows from 0 on without gap or repeat, also by what the environments counted."""
    book = book_of(run)
    assert len(book) == rows
    for actor in (0, 1):
        _, step, identity, count = book[book[:, 0] == actor].T
        np.testing.assert_array_equal(step, np.arange(rows // 2))
        same_process = identity[1:] == identity[:-1]
        np.testing.assert_array_equal(np.diff(count)[same_process], 1)
