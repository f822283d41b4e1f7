"""One run, branched twice while it trains: once for time, once while its processes are looked at.

``python -m evaluation.branching.artos_side PongNoFrameskip-v4 clone 16`` answers with the
milliseconds that processes of continuations took, ``made`` (median) and ``first``, and, by fork,
with the megabytes that are a continuation's own (``private``), and those of all that live at once,
the fork of the actor among them, for each continuation (``all``).
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from artos.clock import Deadline
from artos.errors import DeadlineExceeded
from deploy.local.branching import branch
from evaluation.baselines.timing import answer
from evaluation.branching.bench import FORK
from triggers import journal
from workers.actors.memory import private_mb

STEPS = 100
"""Of a continuation."""
_START_SECONDS = 120.0
_TURN_SECONDS = 0.02
_FEW = 2
"""Updates after which an actor is in its stride."""


def measured(env: str, way: str, times: int) -> dict[str, float]:
    """Branch a run of PPO in this environment."""
    with tempfile.TemporaryDirectory(prefix="artos-branching-") as name:
        folder = Path(name, "run")
        with _training(folder, env) as process:
            found = branch(folder, 0, times, until=STEPS)
            made = [1e3 * each for each in _made(found, way)]
            rates = {"made": statistics.median(made), "first": min(made)}
            if way == FORK:
                with _watched(process) as private:
                    _made(branch(folder, 0, times, until=STEPS, seed=1), way)
                rates |= private()
    return rates


@contextmanager
def _training(folder: Path, env: str) -> Iterator[psutil.Process]:
    words = ("run", "ppo", "--env", env, "--actors", "1", "--total-steps", str(10**9))
    with folder.with_suffix(".log").open("wb") as log:
        process = psutil.Popen(
            [sys.executable, "-P", "-m", "artos", *words, "--run-dir", str(folder), "--json"],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        deadline = Deadline(_START_SECONDS)
        while _updates(folder) < _FEW:
            if deadline.passed or process.poll() is not None:
                what = f"{_FEW} updates: {folder.with_suffix('.log').read_text()[-500:]}"
                raise DeadlineExceeded(what, _START_SECONDS)
            time.sleep(_TURN_SECONDS)
        yield process
    finally:
        process.terminate()
        with suppress(psutil.TimeoutExpired):
            process.wait(_START_SECONDS)
        if process.is_running():
            process.kill()
            process.wait()


def _updates(folder: Path) -> int:
    if not (folder / "journal.jsonl").exists():
        return 0
    return sum(line.get("by") == "learner" for line in journal.read(folder / "journal.jsonl"))


def _made(found: dict[str, Any], way: str) -> list[float]:
    faults = [child["fault"] for child in found["children"] if child["fault"]]
    if faults or found["by"] != way:
        raise SystemExit(f"by {found['by']} instead of {way}: {faults}")
    return [child["made"] for child in found["children"]]


@contextmanager
def _watched(run: psutil.Process) -> Iterator[Any]:
    """Look at what processes are new in a run; the value says what they had, in MB."""
    known = {each.pid for each in run.children(recursive=True)}
    largest, together, over = defaultdict[int, float](float), [0.0], threading.Event()
    stems = set[int]()

    def look() -> None:
        while not over.wait(_TURN_SECONDS):
            total = 0.0
            for each in run.children(recursive=True):
                if each.pid in known:
                    continue
                with suppress(psutil.Error):
                    if each.ppid() in known:
                        stems.add(each.pid)
                if private := private_mb(each.pid):  # else it is gone
                    largest[each.pid] = max(largest[each.pid], private)
                    total += private
            together[0] = max(together[0], total)

    def told() -> dict[str, float]:
        own = [size for pid, size in largest.items() if pid not in stems]
        return {"private": statistics.median(own), "all": together[0] / len(own)}

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield told
    finally:
        over.set()
        looking.join()


def main() -> None:
    """Measure once."""
    env, way, times = sys.argv[1:]
    answer(measured(env, way, int(times)), ("torch", "numpy", "gymnasium", "ale-py"))


if __name__ == "__main__":
    main()
