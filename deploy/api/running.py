"""``artos.run``: a run on this machine, from a script, a notebook or a thread.

The run is a process of its own, the one that ``artos run`` is: what it does to signals, threads and
memory does not touch the caller.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import msgspec

from artos.errors import ArtosError, Refused, RunExists
from artos.protocol.views import Status
from artos.runs.exit_status import ExitStatus
from artos.runs.run_config import CONFIG
from artos.system.closest import closest
from artos.system.importing import stop_if_imported
from deploy.api.arguments import asked, words
from deploy.local.local_runs import LocalRuns
from head.records.run_folder import default_path
from head.records.run_lock import is_live

_LOOK = 0.5
_FOLDERS = 100
_EXISTS = ("already holds a run", "is used by a live run")
OnProgress = Callable[[Status], object]


class RunFailed(ArtosError):
    """A run began and failed. ``why`` is what it said; what it has saved is in ``folder``."""

    def __init__(self, folder: Path, why: str) -> None:
        self.folder, self.why = folder, why
        super().__init__(f"the run in {folder} failed: {why}")


class Result(msgspec.Struct, frozen=True):
    """How a run ended. ``summary`` is its ``summary.json``, whose fields are also attributes."""

    folder: Path
    summary: dict[str, Any]

    def __repr__(self) -> str:
        """On a line, as a prompt or a notebook shows it; the summary is a page of numbers."""
        mean = self.mean_return_100
        learnt = "no episode has ended" if mean is None else f"mean return {mean:.4g}"
        return f"<Result {self.folder}: {self.outcome}, {self.steps:,} steps, {learnt}>"

    @property
    def outcome(self) -> str:
        """``done``, or ``interrupted`` if it was stopped."""
        return str(self.summary.get("outcome", ""))

    @property
    def steps(self) -> int:
        """Environment steps."""
        return int(self.summary.get("steps", 0))

    @property
    def mean_return_100(self) -> float | None:
        """The mean return of the last 100 episodes; None if none has ended."""
        found: float | None = self.summary.get("mean_return_100")
        return found

    def __getattr__(self, name: str) -> Any:
        """Another field of the summary.

        Raises:
            AttributeError: it has no such field.
        """
        summary = object.__getattribute__(self, "summary")
        if name in summary:
            return summary[name]
        raise AttributeError(f"a Result has no {name!r}{closest(name, list(summary))}")

    def load(self, **options: Any) -> Any:
        """What it has trained: a policy that plays; ``options`` are those of ``artos.load``."""
        from artos.trained.trained import load  # noqa: PLC0415

        return load(self.folder, **options)


def run(
    workload: Any,
    *,
    env: str | None = None,
    total_steps: int | None = None,
    seed: int = 1,
    run_dir: str | Path | None = None,
    inline: bool = False,
    on_progress: OnProgress | None = None,
    **settings: Any,
) -> Result:
    """Train, and return when the run is over.

    ``workload`` is an algorithm's name, ``FILE.py:OBJECT``, or an object that stands in a file
    under its name: a ``Workload`` of the calling file, or a function that returns one. A script
    needs no guard: when the run's processes import it they stop at this call. ``settings`` are
    those of ``artos run``, also ``actors``, ``device``, ``track`` and whatever ``--set`` takes.

    ``on_progress`` is called with every new ``Status``, about twice a second. What it raises stops
    the run, which saves, and is raised here. So does Ctrl-C.

    Raises:
        Refused: refused before anything was started; all faults at once.
        RunExists: ``run_dir`` holds a run.
        RunFailed: it failed; its weights so far are saved.
    """
    stop_if_imported()
    given = {"env": env, "total_steps": total_steps}
    ours = {"seed": seed, "run_dir": run_dir, "inline": inline, "on_progress": on_progress}
    named = asked(workload, sys._getframe(1).f_globals, given | ours, settings)
    chosen = {name: value for name, value in given.items() if value is not None} | settings
    if run_dir is not None:
        return run_named(named, chosen, seed, Path(run_dir), inline=inline, on_progress=on_progress)
    algorithm = Path(named.rpartition(":")[0]).stem or named
    for _ in range(_FOLDERS):  # another run may take the same number
        folder = default_path(Path("runs"), algorithm, env or "default", seed)
        with suppress(RunExists):
            return run_named(named, chosen, seed, folder, inline=inline, on_progress=on_progress)
    raise RunExists(str(folder), live=False)


def run_named(
    named: str,
    settings: Mapping[str, Any],
    seed: int,
    folder: Path,
    *,
    inline: bool = False,
    on_progress: OnProgress | None = None,
    stopping: threading.Event | None = None,
) -> Result:
    """``run`` of the workload of that name, in that folder; raises what ``run`` raises.

    Raises:
        KeyboardInterrupt: ``stopping`` was set; the run has saved.
    """
    live = is_live(folder)
    if live or (folder / CONFIG).exists():  # else that run's progress would be told as this one's
        raise RunExists(str(folder), live)
    asked_for = ["--seed", str(seed), *(["--inline"] if inline else []), *words(settings)]
    ours = (sys.executable, "-P", "-m", "deploy.cli")  # not a ``deploy`` of the user's folder
    command = [*ours, "run", named, "--json", "--run-dir", str(folder)]
    setpriv = shutil.which("setpriv")  # so that it saves and ends if this process is killed
    begin = [setpriv, "--pdeathsig", "TERM"] if setpriv else []
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as told:
        child = subprocess.Popen(
            [*begin, *command, *asked_for], stdin=subprocess.DEVNULL, stdout=told, stderr=said,
            start_new_session=True,
        )  # fmt: skip
        with _saved(child):
            last: Status | None = None
            while child.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(_LOOK)
                status = _status(folder) if on_progress else None
                if stopping is not None and stopping.is_set():
                    raise KeyboardInterrupt
                if on_progress and status is not None and status != last:
                    on_progress(last := status)
        return _result(child.returncode, folder, _text(told), _text(said))


@contextmanager
def _saved(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Whatever happens in the block, the run has saved and ended after it."""
    try:
        yield
    except BaseException:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait()
        except KeyboardInterrupt:  # a second Ctrl-C: at once
            child.send_signal(signal.SIGTERM)
            child.wait()
        raise


def _status(folder: Path) -> Status | None:
    with suppress(Refused, OSError):  # it has no folder yet, or none any more
        return LocalRuns(folder.parent).status(str(folder)).progress
    return None


def _result(status: int, folder: Path, told: str, said: str) -> Result:
    if status in (ExitStatus.DONE, ExitStatus.INTERRUPTED) and told.strip():
        return Result(folder, msgspec.json.decode(told))
    lines = said.strip().splitlines()
    if status == ExitStatus.REFUSED:
        listed = said.partition("refused, nothing was started:\n  - ")[2].strip()
        faults = listed.split("\n  - ") if listed else []
        if found := [fault for fault in faults if any(words in fault for words in _EXISTS)]:
            raise RunExists(str(folder), live=_EXISTS[1] in found[0])
        raise Refused(faults or [line.removeprefix("artos: ") for line in lines])
    why = "\n".join(lines[-20:]).removeprefix("artos: ") or f"it ended with status {status}"
    raise RunFailed(folder, why)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
