"""The folder of one run: the paths of its files, and the lock that shows whether it is live."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import convert, to_builtins

from artos.errors import CheckpointFault, Refused, RunExists
from artos.runs import run_config
from artos.runs.checkpoint import BEST, MANIFEST, SAVED
from artos.runs.run_config import CONFIG, CONFIGURATION, RunConfig
from artos.specs.configuration import Configuration
from artos.system.closing import Closing
from artos.system.durable import remove_drafts, write_durably
from artos.system.locks import FileLock
from head.records import summary_file
from head.records.reading import reading
from head.records.run_lock import FILE, take
from head.records.status import Summary
from triggers import journal_parts

LOGS, LOG = "logs", "run.log"
"""The folder of the logs, and the log of the run process."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


class RunFolder(Closing):
    """Paths of a run's files, held under an exclusive lock until ``close``.

    The lock is the kernel's (``flock`` on ``run.lock``), so a killed owner never leaves a folder
    locked. Processes forked from the owner share the lock: the folder is free when the last of them
    has ended. A folder holds a run once it has ``config.json``, which is written last and at once.
    """

    def __init__(
        self, path: Path, lock: FileLock, config: dict[str, Any], *, resumed: bool
    ) -> None:
        self.path, self.config, self.resumed = path, config, resumed
        self._lock = lock
        self.config_file = path / CONFIG
        self.progress = path / "progress.csv"
        self.episodes = path / "episodes.csv"
        self.evaluations = path / "evaluations.csv"
        self.events = path / "events"
        self.journal = path / "journal.jsonl"
        self.checkpoint, self.best = path / SAVED, path / BEST
        self.summary = path / summary_file.FILE
        self.curve = path / "curve.png"
        self.logs = path / LOGS
        self.log = self.logs / LOG
        self._found = self._records()

    @classmethod
    def create(cls, path: Path, config: dict[str, Any]) -> RunFolder:
        """Start a new run in ``path``, which may exist if it holds no run.

        Raises:
            RunExists: the folder holds a run; ``live`` if its process is still there.
            Refused: the folder cannot be made or written.
        """
        with writing(path):
            folder = cls(path, take(path), config, resumed=False)
            if folder.config_file.exists():
                folder.close()
                raise RunExists(str(path), live=False)
            try:
                for sub in (folder.events, folder.checkpoint, folder.logs):
                    sub.mkdir(exist_ok=True)
                folder.write_config(config)
            except BaseException:
                folder.discard()
                raise
        return folder

    @classmethod
    def create_numbered(
        cls, root: Path, algorithm: str, env: str, seed: int, config: dict[str, Any]
    ) -> RunFolder:
        """Start a run in the next free ``root/ALGO-ENV-seedS-N``, even if several start at once."""
        while True:
            try:
                return cls.create(default_path(root, algorithm, env, seed), config)
            except RunExists:
                continue  # another process took this number before we had the lock

    @classmethod
    def resume(cls, path: Path) -> RunFolder:
        """Continue the run in ``path``; ``config`` is the one it was created with.

        Raises:
            RunExists: the run's process is still there (``live`` is true).
            CheckpointFault: there is no run, or it has saved no checkpoint.
            NotOurs: another user may have put the folder there.
        """
        if not (path / CONFIG).is_file():
            raise CheckpointFault(
                str(path), "there is no run (no config.json); give the run's folder"
            )
        with ExitStack() as on_error:
            with reading(path / FILE):
                lock = on_error.enter_context(take(path))
            try:
                config = run_config.read(path, RunConfig)[0]
            except OSError as error:
                raise CheckpointFault(str(path), f"{CONFIG}: {error.strerror}") from error
            if not (path / SAVED / MANIFEST).is_file():
                why = "the run ended before its first checkpoint; start it again in another"
                raise CheckpointFault(str(path), f"{why} --run-dir")
            remove_drafts(path)
            on_error.pop_all()
        return cls(path, lock, config, resumed=True)

    @classmethod
    def clear(cls, path: Path) -> bool:
        """Remove the records of a run that has saved no checkpoint; False if it has saved one.

        Raises:
            RunExists: the run's process is still there (``live`` is true).
            NotOurs: another user may have put the folder there.
            Refused: a file cannot be removed.
        """
        with writing(path), cls(path, take(path), {}, resumed=True) as folder:
            if (folder.checkpoint / MANIFEST).is_file():
                return False
            for file in (folder.config_file, folder.best / MANIFEST, *folder._records()):
                if file != folder.log:
                    file.unlink(missing_ok=True)
        return True

    def write_config(self, config: dict[str, Any]) -> None:
        """Write ``config.json`` in one step, sealed if it was this account's until now."""
        own = not self.resumed or run_config.is_own(self.config)
        self.config = run_config.sealed(config) if own else config
        write_durably(self.config_file, _pretty(self.config))

    @property
    def configuration(self) -> Configuration:
        """The settings that were changed while the run went."""
        return convert(self.config.get(CONFIGURATION, {}), Configuration)

    def keep(self, configuration: Configuration) -> None:
        """Have the run go on with these settings when it is resumed.

        Raises:
            OSError: they cannot be written.
        """
        before = self.config
        try:
            self.write_config(before | {CONFIGURATION: to_builtins(configuration)})
        except OSError:
            self.config = before
            raise

    def write_summary(self, summary: Summary) -> None:
        """Write ``summary.json`` in one step."""
        write_durably(self.summary, _pretty(summary.plain()))

    def discard(self) -> None:
        """Undo ``create`` for a run that was refused before it began; other files stay."""
        for file in (self.config_file, self.logs / LOG, *(self._records() - self._found)):
            file.unlink(missing_ok=True)
        for sub in (self.events, self.checkpoint, self.logs):
            _remove_if_empty(sub)
        (self.path / FILE).unlink(missing_ok=True)
        _remove_if_empty(self.path)
        self.close()

    def _records(self) -> frozenset[Path]:
        """The files of records that exist."""
        events = self.events.iterdir() if self.events.is_dir() else ()
        records = (
            self.progress, self.episodes, self.evaluations, self.log, *events,
            *journal_parts.files(self.journal),
        )  # fmt: skip
        return frozenset(file for file in records if file.exists())

    def close(self) -> None:
        """Release the lock. May be called twice."""
        self._lock.close()

    def __repr__(self) -> str:
        return f"<RunFolder {self.path}{' resumed' if self.resumed else ''}>"


@contextmanager
def writing(run: Path) -> Iterator[None]:
    """Turn write errors in this block into ``Refused``: the run in ``run`` cannot begin.

    Raises:
        Refused: a file cannot be written.
    """
    try:
        yield
    except OSError as error:
        then = "make room, or choose another --run-dir"
        then = then if error.errno in _FULL else "choose another --run-dir"
        file = Path(error.filename or run)
        what = f"{run}: {file.name}" if file.parent == run else run
        raise Refused([f"run folder {what}: {error.strerror}; {then}"]) from error


def default_path(root: Path, algorithm: str, env: str, seed: int) -> Path:
    """``root/ALGO-ENV-seedS-N`` with N one above the highest in use; not yet created."""
    stem = f"{_plain(algorithm)}-{_plain(env)}-seed{seed}-"
    taken = [
        int(path.name[len(stem) :])
        for path in root.glob(f"{stem}*")
        if path.name[len(stem) :].isdecimal()
    ]
    return root / f"{stem}{max(taken, default=0) + 1}"


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.") or "run"


def _pretty(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # not empty: others have put files there
