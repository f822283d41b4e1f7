"""The folder of a run's files in shared memory: locked by its owner, reaped when orphaned."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from artos.system import private_folder
from artos.system.account import file_user
from artos.system.child_modules import ChildModule
from artos.system.durable import write_durably
from artos.system.locks import FileLock, is_held
from artos.system.machine import memory_id
from artos.system.pidfd import PidFd
from artos.system.regular_file import contents
from artos.system.shm import shm_root

PREFIX = "artos."
IMAGES = "images"
"""In a run's folder, the name of its actors' images, or of a link to them."""
IMAGE_ROOM = f"{IMAGES}.room"
"""Beside images in shared memory, the file with the bytes that are kept free for them."""
MOVING = f"{IMAGES}-moving"
"""In a run's own folder, the name of the folder of images that are between two nodes."""
KEPT_FOR = "run"
"""In a run's folder, a link to its own folder if its rows are kept until the run is resumed."""
PRIORITIES = "priorities-"
"""In a run's folder, how the names of files with priorities begin."""
_STAYS = re.compile(rf"owner|{KEPT_FOR}|actor-\d+|{PRIORITIES}.+")
"""In a folder that is kept, what has rows, and whose they are."""
_SAVED = "checkpoint/manifest.json"
"""In a run's own folder, what it is resumed from."""
_MEMORY = ".memory"
"""In a run's own folder, the file that says which machine's memory is kept for it."""
_END_SECONDS = 5.0
"""For a member that was killed to be gone."""
_NAME_BYTES = 100
"""Bytes of a run's name that its folder's name has, which may have at most 255."""
_MEMBERS = (b"artos.runtime.", ChildModule.REPLAY.encode())
"""Parts of the command lines of processes that a run starts and that have its memory."""


class ShmFolder:
    """The folder of one run's segments, locked for as long as its owner lives.

    The kernel drops the lock when its owner ends, also after SIGKILL, so a process that can take
    the lock of a folder knows that the folder is orphaned.
    """

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path, self._lock = path, lock

    @classmethod
    def create(cls, name: str) -> ShmFolder:
        """Make and lock a new folder for the run ``name``; orphans are reaped first."""
        reap_orphans()
        short = os.fsencode(name)[:_NAME_BYTES].decode(errors="ignore")
        path = private_folder.make(shm_root(), f"{PREFIX}{short}.")
        lock = FileLock.take(path / "owner")
        assert lock is not None  # the folder was just made: nobody else knows of it
        return cls(path, lock)

    @property
    def lock(self) -> int:
        """The lock's descriptor: a process that inherits it keeps the folder from being reaped."""
        return self._lock.fileno()

    @classmethod
    def left_by(cls, run: Path) -> list[ShmFolder]:
        """The folders, locked, that killed processes of the run in the folder ``run`` left.

        If the run has gone on in another machine's memory since, what they have is outdated: they
        are removed.
        """
        found = []
        for link in shm_root().glob(f"{PREFIX}*/{KEPT_FOR}"):
            path = link.parent
            with suppress(OSError):  # another process has just reaped it
                is_of_run = private_folder.is_ours(path) and link.readlink() == run.resolve()
                lock = FileLock.take(path / "owner", create=False) if is_of_run else None
                if lock is not None:
                    _end_members(path, _END_SECONDS)
                    found.append(cls(path, lock))
        if not _was_last_here(run):
            while found:
                found.pop().remove()
        return found

    def keep_for(self, run: Path) -> None:
        """Have it kept, should its owner be killed, until the run in the folder ``run`` goes on."""
        (self.path / KEPT_FOR).symlink_to(run.resolve())
        # While it cannot be read, rows that are kept would be taken for outdated, and removed.
        if not ((run / _MEMORY).exists() and _was_last_here(run)):
            write_durably(run / _MEMORY, memory_id().encode())

    def leave(self) -> None:
        """Leave it as if its owner were killed."""
        self._lock.close()

    def remove(self) -> None:
        """Delete the folder with every segment in it, and images. Doing it twice is fine."""
        if self._lock.fileno() >= 0:
            _remove_images(self.path)
            private_folder.remove(self.path)
            self._lock.close()


def reap_orphans(*, kept: bool = False) -> list[Path]:
    """Remove the folders whose owner is dead, and their images; live runs are never touched.

    Of folders that are kept until their run goes on, rows stay, unless ``kept``: these go, too.
    Members that still use such a folder are killed: most end with their owner by themselves, but
    a member that was being restored from an image at that moment may have outlived it.
    """
    reaped = []
    for path in _orphans():
        try:
            lock = FileLock.take(path / "owner", create=False)
        except OSError:  # it was never locked, or is half removed
            lock = None
        else:
            if lock is None:
                continue  # another process takes it, or removes it
        _end_members(path)
        reaped += _remove_images(path)
        if kept or not is_kept(path):
            reaped += [path] if private_folder.remove(path) else []
        else:
            for inside in path.iterdir():
                if inside.is_dir() and not inside.is_symlink():  # images, if they are on a tmpfs
                    private_folder.remove(inside)
                elif not _STAYS.fullmatch(inside.name):
                    inside.unlink(missing_ok=True)
        if lock is not None:
            lock.close()
    return reaped


def is_kept(folder: Path) -> bool:
    """Whether the rows in a folder in shared memory are kept for a run that can be resumed."""
    try:
        run = (folder / KEPT_FOR).readlink()
        return (run / _SAVED).exists() and _was_last_here(run)
    except OSError:  # no link, no such folder, or one of another user
        return False


def _was_last_here(run: Path) -> bool:
    """Whether the run's memory was this machine's when it was last kept."""
    try:
        return contents(run / _MEMORY).decode() == memory_id()
    except FileNotFoundError:  # it was kept by a version that knew of one machine only
        return True


def _orphans() -> Iterator[Path]:
    for path in shm_root().glob(f"{PREFIX}*"):
        is_run = private_folder.is_fresh(path, PREFIX)  # others are a user's own
        if is_run and private_folder.is_ours(path) and _is_orphan(path):
            yield path


def _end_members(folder: Path, patience: float = 0.0) -> None:
    for process in Path("/proc").iterdir():
        # Members that map or hold open a file in the folder, but no program of the user's.
        if not process.name.isdecimal() or int(process.name) == os.getpid():
            continue
        # Opened before it is examined: later another process may have this process id.
        with suppress(ProcessLookupError), PidFd(int(process.name)) as member:
            if _uses(process, f"{folder}/"):
                member.signal(signal.SIGKILL)
                member.wait(patience)


def _remove_images(folder: Path) -> list[Path]:
    """Delete the images that a run's folder links to; returns what was deleted."""
    images = folder / IMAGES
    linked = [images.readlink()] if images.is_symlink() else []
    return [path for path in filter(holds_images, linked) if private_folder.remove(path)]


def holds_images(path: Path) -> bool:
    """Whether a folder has such a name as we give to folders of images."""
    return re.fullmatch(rf"{IMAGES}-[0-9a-f]+|{MOVING}", path.name) is not None


def _uses(process: Path, prefix: str) -> bool:
    try:
        if process.stat().st_uid != file_user():
            return False
        command = (process / "cmdline").read_bytes()
        if not any(member in command for member in _MEMBERS):
            return False
        opened = (str(entry.readlink()) for entry in (process / "fd").iterdir())
        return prefix in (process / "maps").read_text() or any(
            name.startswith(prefix) for name in opened
        )
    except OSError:
        return False  # it just ended, or belongs to another user


def _is_orphan(path: Path) -> bool:
    try:
        held = is_held(path / "owner")
    except FileNotFoundError:
        # Either a run is just starting, between mkdir and lock, or half removed: age decides.
        return _is_older(path, 60.0)
    # A folder is locked right after its lock file appears; a new run may be at that point.
    return not held and _is_older(path, 0.1)


def _is_older(path: Path, seconds: float) -> bool:
    try:
        age = time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return False
    return not 0 <= age <= seconds  # in the future: the time of day was set back since
