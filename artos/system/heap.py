"""Memory that is never given back: one arena, in huge pages where the kernel has them.

Activations of all minibatches and messages of all rollouts reuse one memory instead of faulting
fresh pages in, which makes a CNN learner a fifth faster.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_MADV_HUGEPAGE = 14
_ARENA = 1 << 30
"""Address space taken at once, because memory added later has pages of the usual size."""

# glibc reads these when a process is started.
_TUNABLES = {
    "hugetlb": 1,
    "mmap_threshold": 4 << 30,
    "trim_threshold": 8 << 30,
    "top_pad": 64 << 20,
}
ENVIRONMENT = {
    "GLIBC_TUNABLES": ":".join(f"glibc.malloc.{name}={value}" for name, value in _TUNABLES.items())
}


def begin() -> None:
    """What ``ENVIRONMENT`` does, for a process that runs already; nothing without glibc."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "mallopt"):
        return
    libc.mallopt(_M_MMAP_THRESHOLD, (1 << 31) - 1)
    libc.mallopt(_M_TRIM_THRESHOLD, -1)
    libc.mallopt(_M_TOP_PAD, 64 << 20)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.free(libc.malloc(_ARENA))  # never touched, so it takes no memory yet
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("[heap]"):
            start, stop = (int(each, 16) for each in line.split(maxsplit=1)[0].split("-"))
            libc.madvise(start, stop - start, _MADV_HUGEPAGE)
