"""Moves a template's memory to a file that all its clones share. This is not part of CRIU.

``python -P -m workers.checkpoint.criu.common_memory PID FILE``

A Python process with torch has 150 MB of private memory, and CRIU copies all of it at every
restore. Here the process is stopped, its memory is written to a file on a tmpfs and then mapped
from there, privately and at the same addresses. The process does not notice. But its pages now
belong to a file, so an image holds only the pages changed since, a restore copies next to nothing,
and clones share every page they do not write to, as after a fork.

This is done from outside with ptrace: the stopped main thread is made to carry out a few mmap calls
and gets its registers back. It must be asleep in a system call, as a template is.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from artos.errors import ShmTooSmall
from artos.system.child import command
from artos.system.regular_file import opened
from artos.system.shm import free_bytes

_SINGLESTEP, _DETACH, _GETREGSET, _SETREGSET, _SEIZE, _INTERRUPT = (
    9,
    17,
    0x4204,
    0x4205,
    0x4206,
    0x4207,
)
_PRSTATUS, _WALL = 1, 0x40000000
_MMAP, _CLOSE, _OPENAT, _AT_CWD = 9, 3, 257, -100
_READ_WRITE, _PRIVATE_FIXED = 3, 0x12
_SYSCALL = b"\x0f\x05"
_WORD = 1 << 64
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LEAST, _CHUNK = 64 << 10, 1 << 20
_BELOW_STACK = 4096
"""Far enough below the stack pointer to be unused."""
_NAMES = (
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi",
    "rdi", "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs",
    "gs",
)  # fmt: skip
_ARGUMENTS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 *(\[heap\]|)$")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

SUPPORTED = platform.machine() == "x86_64"
"""Registers and system calls here are x86-64's; on other machines clones share no memory."""


class _Registers(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in _NAMES)


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class Stretch(NamedTuple):
    """``size`` bytes of private memory at ``start``, kept at ``offset`` in the file."""

    start: int
    size: int
    offset: int


class Stopped:
    """A process whose threads are all stopped; makes its main thread carry out system calls."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._registers = self._read_registers()
        if os.pread(self.memory, 2, self._registers.rip - 2) != _SYSCALL:
            raise OSError(f"process {pid} does not sleep in a system call")

    @property
    def memory(self) -> int:
        """Descriptor of the process's memory, opened on first use."""
        if not hasattr(self, "_memory"):
            self._memory = os.open(f"/proc/{self._pid}/mem", os.O_RDWR)
        return self._memory

    def call(self, number: int, *arguments: int) -> int:
        """Have the process make a system call; returns the result.

        Raises:
            OSError: the system call failed.
        """
        changed = _Registers.from_buffer_copy(self._registers)
        changed.rip -= len(_SYSCALL)
        changed.rax = number
        changed.orig_rax = _WORD - 1  # not to be restarted
        for name, value in zip(_ARGUMENTS, arguments, strict=False):
            setattr(changed, name, value % _WORD)
        self._write_registers(changed)
        _ptrace(_SINGLESTEP, self._pid)
        os.waitpid(self._pid, _WALL)
        result = int(self._read_registers().rax)
        if result >= _WORD - 4096:
            raise OSError(_WORD - result, f"system call {number}: {os.strerror(_WORD - result)}")
        return result

    @contextmanager
    def text(self, value: str) -> Iterator[int]:
        """Put a string into the process's memory for the duration; yields its address."""
        address = (self._registers.rsp - _BELOW_STACK) & ~15
        before = os.pread(self.memory, len(value) + 1, address)
        os.pwrite(self.memory, value.encode() + b"\0", address)
        try:
            yield address
        finally:
            os.pwrite(self.memory, before, address)

    def close(self) -> None:
        """Restore the registers."""
        self._write_registers(self._registers)
        os.close(self.memory)

    def _read_registers(self) -> _Registers:
        registers = _Registers()
        self._transfer(_GETREGSET, registers)
        return registers

    def _write_registers(self, registers: _Registers) -> None:
        self._transfer(_SETREGSET, registers)

    def _transfer(self, request: int, registers: _Registers) -> None:
        vector = _Vector(ctypes.addressof(registers), ctypes.sizeof(registers))
        _ptrace(request, self._pid, _PRSTATUS, ctypes.addressof(vector))


def share(pid: int, file: Path) -> int:
    """Move the private memory of a sleeping process to ``file``; returns the bytes moved.

    Raises:
        OSError: the process is gone, may not be traced, or is not asleep in a system call; or the
            file cannot be written, and is gone.
        ShmTooSmall: there is no room for the file.
    """
    with ExitStack() as stack:
        for thread in map(int, os.listdir(f"/proc/{pid}/task")):  # noqa: PTH208 (names)
            _ptrace(_SEIZE, thread)
            stack.callback(_ptrace, _DETACH, thread)
            _ptrace(_INTERRUPT, thread)
            os.waitpid(thread, _WALL)
        process = Stopped(pid)
        stack.callback(process.close)
        stretches, offset = list[Stretch](), 0
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if found := _MAPPING.match(line):
                start, stop = int(found[1], 16), int(found[2], 16)
                if stop - start >= _LEAST:
                    stretches.append(Stretch(start, stop - start, offset))
                    offset += stop - start
        # Only the pages that exist: the file has holes instead of the others.
        runs = [(stretch, run) for stretch in stretches for run in _present(pid, stretch)]
        moved = sum(stop - start for _, (start, stop) in runs)
        if moved > (free := free_bytes(file.parent)):
            raise ShmTooSmall(moved, free, str(file.parent))
        with open(file, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as out:
            try:
                for stretch, (start, stop) in runs:
                    for at in range(start, stop, _CHUNK):
                        piece = os.pread(process.memory, size := min(_CHUNK, stop - at), at)
                        done = os.pwrite(out.fileno(), piece, stretch.offset + at - stretch.start)
                        _require(done, size, file)
                out.truncate(sum(stretch.size for stretch in stretches))
            except BaseException:
                file.unlink()  # the process does not use it yet
                raise

        with process.text(str(file)) as path:
            descriptor = process.call(_OPENAT, _AT_CWD, path, os.O_RDWR, 0)
        for start, size, offset in stretches:
            process.call(_MMAP, start, size, _READ_WRITE, _PRIVATE_FIXED, descriptor, offset)
        process.call(_CLOSE, descriptor)
    return moved


def begin(pid: int, file: Path, log: Path) -> subprocess.Popen[bytes]:
    """``share`` in a process of its own, as it takes a while; why it failed is in ``log``."""
    with opened(log, "ab") as output:
        return subprocess.Popen(
            command(__name__, str(pid), str(file)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def _require(done: int, wanted: int, file: Path) -> None:
    """Refuse a file of which a part is missing: processes would go on with zeros there."""
    if done != wanted:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))


def _present(pid: int, stretch: Stretch) -> Iterator[tuple[int, int]]:
    """Runs of pages that exist, as addresses."""
    count = stretch.size // _PAGE
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as table:
        table.seek(stretch.start // _PAGE * 8)
        entries = struct.unpack(f"{count}Q", table.read(8 * count))
    first = None
    for number, entry in enumerate((*entries, 0)):
        exists = bool(entry >> 62)  # in memory or swapped out
        if exists and first is None:
            first = number
        elif not exists and first is not None:
            yield stretch.start + first * _PAGE, stretch.start + number * _PAGE
            first = None


def _ptrace(request: int, pid: int, address: int = 0, data: int = 0) -> None:
    if _libc.ptrace(request, pid, address, data) == -1:
        error = ctypes.get_errno()
        raise OSError(error, f"ptrace of {pid}: {os.strerror(error)}")


def main() -> int:
    """Share the memory of the process on the command line through the file named there."""
    try:
        share(int(sys.argv[1]), Path(sys.argv[2]))
    except (OSError, ShmTooSmall) as error:
        print(error, file=sys.stderr)  # noqa: T201  # read by the caller
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
