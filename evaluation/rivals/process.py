"""Driving a rival: a fresh process with a deadline, its answer one JSON line on its output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from artos.errors import ArtosError, DeadlineExceeded
from evaluation.rivals import guard

PACKAGE = Path(__file__).resolve().parents[1]
_GRACE_SECONDS = 30.0


class RivalFailed(ArtosError):
    """A rival's process failed. ``what`` names it, ``why`` is the end of what it printed."""

    def __init__(self, what: str, status: int, why: str) -> None:
        self.what, self.status, self.why = what, status, why
        super().__init__(f"{what} ended with status {status}: {why or 'it printed nothing'}")


def run(command: Sequence[str], seconds: float, env: Mapping[str, str] | None = None) -> str:
    """Run ``command`` under a guard and return what it printed; nothing it started survives.

    Raises:
        DeadlineExceeded: it took more than ``seconds``.
        RivalFailed: it ended with another status than 0.
    """
    name = Path(command[0]).name if len(command) < 2 else " ".join(command[1:4])
    guarded = [sys.executable, "-P", guard.__file__, str(seconds), *command]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            guarded, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True, env=env
        ) as process,
    ):
        printed = _collect(process, seconds)
        log.seek(0)
        errors = log.read()
    if process.returncode == guard.TIMED_OUT:
        raise DeadlineExceeded(name, seconds)
    if process.returncode:
        raise RivalFailed(name, process.returncode, _last_words(errors or printed))
    return printed


def measure(python: Path, module: str, *arguments: str, seconds: float = 300) -> dict[str, Any]:
    """Run a script of this package with another interpreter and return the JSON object it prints.

    The script sees the package ``evaluation`` and nothing else of ours; its temporary files lie in
    a folder that is removed afterwards.

    Raises:
        DeadlineExceeded: it took more than ``seconds``.
        RivalFailed: it failed, or printed no JSON object.
    """
    command = [str(python), "-P", "-m", f"evaluation.rivals.{module}", *arguments]
    with _room() as room:
        printed = run(command, seconds, _surroundings(room))
    for line in reversed(printed.splitlines()):
        if line.startswith("{"):
            answer: dict[str, Any] = json.loads(line)
            return answer
    raise RivalFailed(module, 0, f"no result in its output: {_last_words(printed)}")


def _collect(process: subprocess.Popen[str], seconds: float) -> str:
    try:
        return process.communicate(timeout=seconds + _GRACE_SECONDS)[0]
    finally:
        # On Ctrl-C or a stuck guard: it ends what it started when it is asked to end.
        process.terminate()


@contextmanager
def _room() -> Iterator[Path]:
    # A short path: Ray puts Unix sockets below it, whose names are limited to 107 characters.
    with tempfile.TemporaryDirectory(prefix="rival-", ignore_cleanup_errors=True) as folder:
        Path(folder, "evaluation").symlink_to(PACKAGE)
        yield Path(folder)


def _surroundings(room: Path) -> dict[str, str]:
    quiet = {"PYTHONPATH": str(room), "TMPDIR": str(room), "PYTHONWARNINGS": "ignore"}
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return {**threads, **os.environ, **quiet}


def _last_words(text: str, lines: int = 3) -> str:
    said = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(said[-lines:])[-600:]
