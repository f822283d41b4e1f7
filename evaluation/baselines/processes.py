"""Runs scripts in fresh processes with a deadline; each answers with one line of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from artos.errors import ArtosError, DeadlineExceeded
from evaluation.baselines import guard

PACKAGE = Path(__file__).resolve().parents[1]
_GRACE_SECONDS = 30.0


class BaselineFailed(ArtosError):
    """A baseline's process failed. ``what`` names it, ``why`` is the end of its output."""

    def __init__(self, what: str, status: int, why: str) -> None:
        self.what, self.status, self.why = what, status, why
        super().__init__(f"{what} ended with status {status}: {why or 'it printed nothing'}")


def run(command: Sequence[str], seconds: float, env: Mapping[str, str] | None = None) -> str:
    """Run ``command`` under a guard and return its output; no process that it started survives.

    Raises:
        DeadlineExceeded: it took more than ``seconds``.
        BaselineFailed: its exit status was not 0.
    """
    name = " ".join((Path(command[0]).name, *command[1:5]))
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
        raise BaselineFailed(name, process.returncode, _last_lines(errors or printed))
    return printed


Rates = tuple[dict[str, float], dict[str, str]]
"""A script's answer: rates by measure, and the versions of the packages used."""


def measure(
    python: Path,
    module: str,
    *arguments: str,
    seconds: float,
    environment: Mapping[str, str] | None = None,
) -> Rates:
    """Run a script of this package with a baseline's interpreter.

    The script can import ``evaluation`` and no other package of ours; its temporary files are in a
    folder that is removed afterwards. ``environment``: more variables.

    Raises:
        DeadlineExceeded: it took more than ``seconds``.
        BaselineFailed: it failed, or printed no result.
    """
    with _room() as room:
        command = (str(python), "-P", "-m", f"evaluation.{module}", *arguments)
        env = {**_surroundings(room, room), **(environment or {})}
        return _answer(module, run(command, seconds, env))


def measure_ours(
    module: str, *arguments: str, seconds: float, environment: Mapping[str, str] | None = None
) -> Rates:
    """Run a script of ``evaluation`` in the same way, with this interpreter and all our packages.

    Raises:
        DeadlineExceeded: it took more than ``seconds``.
        BaselineFailed: it failed, or printed no result.
    """
    with _room() as room:
        command = (sys.executable, "-P", "-m", f"evaluation.{module}", *arguments)
        env = {**_surroundings(room, PACKAGE.parent), **(environment or {})}
        return _answer(module, run(command, seconds, env))


def _answer(module: str, printed: str) -> Rates:
    for line in reversed(printed.splitlines()):
        if line.startswith("{"):
            found = json.loads(line)
            return found["rates"], found["versions"]
    raise BaselineFailed(module, 0, f"no result in its output: {_last_lines(printed)}")


def _collect(process: subprocess.Popen[str], seconds: float) -> str:
    try:
        return process.communicate(timeout=seconds + _GRACE_SECONDS)[0]
    finally:
        # On Ctrl-C or if the guard is stuck; the guard ends its processes when it is terminated.
        process.terminate()


@contextmanager
def _room() -> Iterator[Path]:
    # A short path: Ray puts Unix sockets below it, and their paths are limited to 107 characters.
    with tempfile.TemporaryDirectory(prefix="baseline-", ignore_cleanup_errors=True) as folder:
        Path(folder, "evaluation").symlink_to(PACKAGE)
        yield Path(folder)


def _surroundings(room: Path, imports: Path) -> dict[str, str]:
    quiet = {"PYTHONPATH": str(imports), "TMPDIR": str(room), "PYTHONWARNINGS": "ignore"}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {**threads, **os.environ, **quiet}


def _last_lines(text: str, lines: int = 3) -> str:
    said = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(said[-lines:])[-600:]
