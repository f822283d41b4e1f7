"""A mutex in shared memory that the kernel releases when its owner ends."""

from __future__ import annotations

import ctypes
import errno
import os
import time

BYTES = 64
"""Room for it in the mapping, at any multiple of 8: a ``pthread_mutex_t`` has 40 or 48 bytes."""

_SHARED, _ROBUST, _CHECKED = 1, 1, 2
_CLOCK_MONOTONIC = 1


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


_libc = ctypes.CDLL(None)
_quick = ctypes.PyDLL(None)  # calls that never wait need not let other threads run
_quick.pthread_mutex_trylock.argtypes = _quick.pthread_mutex_unlock.argtypes = [ctypes.c_void_p]
_quick.pthread_mutex_consistent.argtypes = [ctypes.c_void_p]
_quick.pthread_mutex_init.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
_libc.pthread_mutex_clocklock.argtypes = [
    ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(_Timespec)
]  # fmt: skip
_try, _unlock = _quick.pthread_mutex_trylock, _quick.pthread_mutex_unlock


class SharedMutex:
    """A robust mutex of the C library (``PTHREAD_MUTEX_ROBUST``): its owner is a thread.

    A child made by fork does not own it, and it is released when its owner ends, however it ends.
    A process that is stopped (SIGSTOP) keeps it, so waiting has a deadline.
    """

    def __init__(self, memory: memoryview, offset: int, *, create: bool = False) -> None:
        self._view = (ctypes.c_char * BYTES).from_buffer(memory, offset)
        self._address = ctypes.addressof(self._view)
        self._numbers = memory[offset : offset + BYTES].cast("i")
        if create:
            _check(_initialise(self._address))

    def acquire(self, seconds: float) -> bool:
        """Take it, waiting at most ``seconds``; False if another thread kept it.

        If the last owner ended while it had it, what it protects may be half changed.

        Raises:
            OSError: it is no such mutex.
        """
        if self._numbers[_KIND_AT] != _KIND:  # the C library is safe only with those it made
            raise OSError(errno.EINVAL, "no mutex")
        status = _try(self._address)
        if status == errno.EBUSY and seconds > 0:
            end = time.monotonic() + seconds
            until = _Timespec(int(end), int(end % 1 * 1e9))
            status = _libc.pthread_mutex_clocklock(
                self._address, _CLOCK_MONOTONIC, ctypes.byref(until)
            )
        if status in (errno.EBUSY, errno.ETIMEDOUT):
            return False
        if status == errno.EOWNERDEAD:
            status = _quick.pthread_mutex_consistent(self._address)
        elif status == errno.EDEADLK:  # an exception came between taking it and using it
            status = 0
        _check(status)
        return True

    def release(self) -> None:
        """Give it back.

        Raises:
            OSError: this thread does not own it.
        """
        _check(_unlock(self._address))


def _initialise(address: int) -> int:
    attributes = ctypes.create_string_buffer(BYTES)
    _check(_quick.pthread_mutexattr_init(attributes))
    _check(_quick.pthread_mutexattr_setpshared(attributes, _SHARED))
    _check(_quick.pthread_mutexattr_setrobust(attributes, _ROBUST))
    _check(_quick.pthread_mutexattr_settype(attributes, _CHECKED))
    return int(_quick.pthread_mutex_init(address, attributes))


def _check(status: int) -> None:
    if status:
        raise OSError(status, os.strerror(status))


def _kind() -> tuple[int, int]:
    """Where the C library writes what kind of mutex it is, and what it writes there."""
    made = ctypes.create_string_buffer(BYTES)
    _check(_initialise(ctypes.addressof(made)))
    numbers = memoryview(made).cast("B").cast("i")
    ((at, number),) = [(at, number) for at, number in enumerate(numbers) if number]
    return at, number


_KIND_AT, _KIND = _kind()
