"""Files in shared memory: created at full size with their pages present."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import resource
import weakref
from pathlib import Path

from artos.buffer.layout import LAYOUT_VERSION
from artos.errors import FilesTooSmall, LayoutMismatch, ShmTooSmall

_NEW = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_MAP_FIXED = 0x10
_FAILED = ctypes.c_void_p(-1).value


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
                # One process needs none of that else.
                from artos.system.shm import free_bytes  # noqa: PLC0415

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

    def part(self) -> None:
        """Have this process see its own changes only, and no other process see them.

        Of a forked process, whose parent uses the file: every view stays valid.
        """
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        # That of a process from another node, which came as an image, has another path by now.
        descriptor = os.open(_file_at(address), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _mapped(address, len(self), mmap.MAP_PRIVATE | _MAP_FIXED, descriptor)
        finally:
            os.close(descriptor)

    def __len__(self) -> int:
        return len(self.memory)

    def __repr__(self) -> str:
        return f"<Segment {self.path} {len(self)} bytes>"


def _mapped(address: int | None, size: int, flags: int, descriptor: int) -> int:
    access = mmap.PROT_READ | mmap.PROT_WRITE
    found: int = _libc.mmap(address, size, access, flags, descriptor, 0)
    if found == _FAILED:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def _file_at(address: int) -> bytes:
    """The path of the file that is mapped there."""
    for line in Path("/proc/self/maps").read_bytes().splitlines():
        if line.startswith(b"%08x-" % address):
            return line.split(maxsplit=5)[5].replace(rb"\012", b"\n")
    raise OSError(errno.EFAULT, f"no file is mapped at {address:x}")


def _map(descriptor: int, size: int) -> memoryview:
    # mmap.mmap would keep a duplicate of the descriptor open: one more per block of a node.
    address = _mapped(None, size, mmap.MAP_SHARED, descriptor)
    array = (ctypes.c_char * size).from_address(address)
    # Every view keeps the array alive, so nothing is unmapped under a reader.
    weakref.finalize(array, _libc.munmap, address, size).atexit = False
    return memoryview(array).cast("B")
