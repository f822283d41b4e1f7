"""A doorbell wakes a process, and fences keep the order of stores, in shared memory.

A doorbell is a POSIX semaphore in mapped memory: no descriptor, no name, no thread. A process
asleep on one can be checkpointed, and killing a process at any point leaves the semaphore usable.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import time

SEMAPHORE_BYTES = 64

_CLOCK_MONOTONIC = 1

_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


for _name in ("sem_post", "sem_trywait"):
    getattr(_libc, _name).argtypes = [ctypes.c_void_p]
_libc.sem_init.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint]
_libc.sem_clockwait.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(_Timespec)]
_post, _trywait, _clockwait = _libc.sem_post, _libc.sem_trywait, _libc.sem_clockwait


class Doorbell:
    """A semaphore at ``offset`` of a mapping: many ring it, one waits. Rings are never lost."""

    def __init__(
        self, memory: mmap.mmap | memoryview, offset: int, *, create: bool = False
    ) -> None:
        # Holding the ctypes view keeps the mapping alive for as long as the address is used.
        self._view = (ctypes.c_char * SEMAPHORE_BYTES).from_buffer(memory, offset)
        self._address = ctypes.addressof(self._view)
        if create and _libc.sem_init(self._address, 1, 0) != 0:
            raise OSError(ctypes.get_errno(), "sem_init failed")

    @property
    def memory(self) -> memoryview:
        """Its ``SEMAPHORE_BYTES`` bytes, to be moved with the process that sleeps on it."""
        return memoryview(self._view).cast("B")

    def ring(self) -> None:
        """Wake the waiter, or make its next wait return at once. Safe in a signal handler."""
        _post(self._address)

    def drain(self) -> int:
        """Take all pending rings without waiting; returns how many."""
        taken = 0
        while _trywait(self._address) == 0:
            taken += 1
        return taken

    def wait(self, seconds: float) -> bool:
        """Sleep until rung, at most ``seconds``; True if rung, False also on a signal."""
        if _trywait(self._address) == 0:
            return True
        if seconds <= 0:
            return False
        # By the monotonic clock: setting the time of day neither shortens nor lengthens a wait.
        end = time.monotonic() + seconds
        until = _Timespec(int(end), int(end % 1 * 1e9))
        if _clockwait(self._address, _CLOCK_MONOTONIC, ctypes.byref(until)) == 0:
            return True
        code = ctypes.get_errno()
        if code not in (errno.ETIMEDOUT, errno.EINTR):
            raise OSError(code, os.strerror(code))
        return False


_fence_memory = mmap.mmap(-1, mmap.PAGESIZE)
_fence_doorbell = Doorbell(_fence_memory, 0, create=True)
_fence_address = _fence_doorbell._address


def fence() -> None:
    """A full memory barrier: earlier reads and writes take effect before all later ones.

    Needed where a load must not pass an earlier store: a pin is written, then the slot looked at.
    """
    # On x86-64 either call is a locked instruction, which is a full barrier. On arm64 they are a
    # store-release and a load-acquire of the kind that is not reordered with one another.
    _post(_fence_address)
    _trywait(_fence_address)


def _ordered_by_hardware() -> None:
    """Nothing to do: x86-64 keeps stores in order among themselves, and loads too."""


# To publish rows, stores need only be in order among themselves, and so must loads of a reader.
ordered = _ordered_by_hardware if platform.machine() in ("x86_64", "AMD64") else fence
"""Keep stores in order, and loads in order; unlike a fence it lets a later load pass a store."""
