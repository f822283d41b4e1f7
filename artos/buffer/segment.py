"""Files in shared memory: created at full size with their pages present, reaped when orphaned."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import re
import resource
import signal
import time
import weakref
from contextlib import suppress
from pathlib import Path

from artos.buffer.layout import LAYOUT_VERSION
from artos.errors import FilesTooSmall, LayoutMismatch, ShmTooSmall
from artos.system import private_folder
from artos.system.locks import FileLock, is_held
from artos.system.pidfd import PidFd
from artos.system.shm import shm_root

PREFIX = "artos."
IMAGES = "images"
"""In a run's folder, the name of its actors' images, or of a link to them."""
MOVING = f"{IMAGES}-moving"
"""In a run's own folder, the name of the folder of images that are between two nodes."""
_NAME_BYTES = 100
"""Bytes of a run's name that its folder's name has, which may have at most 255."""
_MEMBER = b"artos.runtime."
"""Part of the command line of every process that a run starts for user code."""
_NEW = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_FAILED = ctypes.c_void_p(-1).value


def free_bytes(folder: Path) -> int:
    """Bytes that can still be allocated in the filesystem of ``folder``."""
    stat = os.statvfs(folder)
    return stat.f_bavail * stat.f_frsize


class Segment:
    """One mapped file. The mapping holds no descriptor, so its process can be checkpointed."""

    def __init__(self, path: Path, memory: memoryview) -> None:
        self.path, self.memory = path, memory

    @classmethod
    def create(
        cls, path: Path, size: int, *, mode: int = 0o600, folder: int | None = None
    ) -> Segment:
        """Create ``path`` with ``size`` bytes, all pages allocated.

        With the descriptor of its ``folder`` it is made there, whatever has its path by now.

        Raises:
            ShmTooSmall: the filesystem is too small; nothing is left behind.
            FilesTooSmall: this process may not write files of that size.
        """
        name = path if folder is None else path.name
        descriptor = os.open(name, _NEW, 0o600, dir_fd=folder)
        try:
            os.fchmod(descriptor, mode)
            os.posix_fallocate(descriptor, 0, size)
            return cls(path, _map(descriptor, size))
        except OSError as error:
            os.unlink(name, dir_fd=folder)
            if error.errno == errno.ENOSPC:
                raise ShmTooSmall(size, free_bytes(path.parent), str(path.parent)) from error
            if error.errno == errno.EFBIG:
                limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
                raise FilesTooSmall(size, limit) from error
            raise
        finally:
            os.close(descriptor)

    @classmethod
    def attach(cls, path: Path) -> Segment:
        """Map the whole of an existing file for reading and writing.

        Raises:
            LayoutMismatch: the file is empty.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return cls.over(path, descriptor)
        finally:
            os.close(descriptor)

    @classmethod
    def over(cls, path: Path, descriptor: int) -> Segment:
        """Map the whole of a file that is open for reading and writing.

        Raises:
            LayoutMismatch: the file is empty.
        """
        if size := os.fstat(descriptor).st_size:
            return cls(path, _map(descriptor, size))
        raise LayoutMismatch(str(path), "no content", LAYOUT_VERSION)

    def __len__(self) -> int:
        return len(self.memory)

    def __repr__(self) -> str:
        return f"<Segment {self.path} {len(self)} bytes>"


def _map(descriptor: int, size: int) -> memoryview:
    # mmap.mmap would keep a duplicate of the descriptor open: one more per block of a node.
    access = mmap.PROT_READ | mmap.PROT_WRITE
    address = _libc.mmap(None, size, access, mmap.MAP_SHARED, descriptor, 0)
    if address == _FAILED:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    array = (ctypes.c_char * size).from_address(address)
    # Every view keeps the array alive, so nothing is unmapped under a reader.
    weakref.finalize(array, _libc.munmap, address, size).atexit = False
    return memoryview(array).cast("B")


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

    def remove(self) -> None:
        """Delete the folder with every segment in it, and images. Doing it twice is fine."""
        _remove(self.path)
        self._lock.close()


def reap_orphans() -> list[Path]:
    """Remove the folders whose owner is dead, and their images; live runs are never touched.

    Members that still use such a folder are killed: most end with their owner by themselves, but
    a member that was being restored from an image at that moment may have outlived it.
    """
    reaped = []
    for path in shm_root().glob(f"{PREFIX}*"):
        if not private_folder.is_fresh(path, PREFIX):
            continue  # a user's own
        if private_folder.is_ours(path) and _is_orphan(path):
            _kill_users_of(path)
            reaped += _remove(path)
    return reaped


def _remove(folder: Path) -> list[Path]:
    """Delete the images that a run's folder links to, then the folder; returns what was deleted."""
    images = folder / IMAGES
    linked = [images.readlink()] if images.is_symlink() else []
    return [path for path in (*filter(holds_images, linked), folder) if private_folder.remove(path)]


def holds_images(path: Path) -> bool:
    """Whether a folder has such a name as we give to folders of images."""
    return re.fullmatch(rf"{IMAGES}-[0-9a-f]+|{MOVING}", path.name) is not None


def _kill_users_of(folder: Path) -> None:
    """Kill members that map or hold open a file in ``folder``, but no program of the user's."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    for pid in pids:
        # Opened before it is examined: later another process may have this process id.
        with suppress(ProcessLookupError), PidFd(pid) as process:
            if pid != os.getpid() and _uses(Path(f"/proc/{pid}"), f"{folder}/"):
                process.signal(signal.SIGKILL)


def _uses(process: Path, prefix: str) -> bool:
    try:
        if process.stat().st_uid != os.getuid():
            return False
        if _MEMBER not in (process / "cmdline").read_bytes():
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
