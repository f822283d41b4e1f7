"""Imports a workload's code once; every process of the workload is then forked from here.

``python -P -m artos.runtime.preload REFERENCE_JSON SOCKET``, started and asked by ``Preloaded``.
SOCKET is the number of an inherited descriptor, a Unix socket of packets. A request is a
``ProcessSpec`` as JSON, with the descriptors that are to be the new process's standard streams; the
answer is a ``Forked``. The new process goes on as ``python -m MODULE ARGUMENTS`` would, but with
everything imported. It belongs to this process's parent, which must adopt orphans.

This process only imports, so forked processes find the workload as a fresh process would. A failing
import is not reported here: it fails again in registration, the first forked process.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from artos.clock import Deadline
from artos.errors import DeadlineExceeded, Refused
from artos.specs.reference import Reference
from artos.system import child, heap
from artos.system.child import Child, ProcessSpec, adopt_orphans, adopts_orphans, fork_aside
from artos.system.child_modules import ChildModule
from artos.system.closing import Closing
from artos.system.exit_report import START_SECONDS
from artos.system.under_way import NoAnswer, last

STREAMS = 3
_MOST = 1 << 17
_ANSWER_BYTES = 4096


class Forked(msgspec.Struct, frozen=True):
    """The process id of the new process, or why there is none."""

    pid: int = 0
    why: str = ""


def main() -> int:
    """Import, then fork on request until the other end is closed."""
    child.begin_member()
    server = socket.socket(fileno=int(sys.argv[2]))
    reference = msgspec.json.decode(sys.argv[1], type=Reference)
    # Slow imports only now: if the parent dies meanwhile, this process ends too.
    import artos.runtime.register  # noqa: PLC0415
    import artos.runtime.serving  # noqa: F401, PLC0415
    from artos.runs.loader import load_object  # noqa: PLC0415

    # Else code that asks torch for GPUs when it is imported would keep them from every fork.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    with suppress(Refused):
        load_object(reference.source, reference.folder)
    sys.stdout.flush()  # or every forked process would print user code's output again
    gc.freeze()  # or the collector would touch, and so copy, every page in every process
    if (spec := _served(server)) is None:
        return 0
    child.forked = True
    sys.argv = [spec.module, *spec.arguments]
    os.environ.update(child.computing(spec.threads))
    if spec.threads > 1:  # the libraries that are loaded have read their variables
        from threadpoolctl import threadpool_limits  # noqa: PLC0415

        threadpool_limits(spec.threads)
    if spec.keeps_heap:
        heap.begin()
    status: int = importlib.import_module(spec.module).main()
    # As ``multiprocessing`` does it: in order, but without tear-down, which would touch, and so
    # copy, all of the memory.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _served(server: socket.socket) -> ProcessSpec | None:
    """Serve requests. Returns its spec in every new process, and None in this one at the end."""
    while True:
        packet, descriptors, _, _ = socket.recv_fds(server, _MOST, STREAMS)
        if not packet:
            return None
        spec = msgspec.json.decode(packet, type=ProcessSpec)
        is_new = False
        if others := len(os.listdir("/proc/self/task")) - 1:  # noqa: PTH208 (names)
            answer = Forked(why=f"user code started {others} threads when it was imported")
        else:
            try:
                pid = fork_aside(apart=spec.apart)
            except OSError as error:
                answer = Forked(why=str(error))
            else:
                answer, is_new = Forked(pid), not pid
        if is_new:
            server.close()
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
                os.close(descriptor)
            return spec
        for descriptor in descriptors:
            os.close(descriptor)
        server.send(msgspec.json.encode(answer))


class ProcessAnswer(NamedTuple):
    """How a process ended, and what it wrote; ``said`` also has what was written at the import."""

    status: int
    out: bytes
    said: bytes


class Preloaded(Closing):
    """A process that imports the workload's code, once, and then forks on request.

    The creator of this object adopts the forked processes, and so hears of their deaths at once. If
    the preload process cannot fork (it was killed, or user code started threads, which a fork would
    lack), processes are started from scratch, and ``why_not`` says why. The constructor does not
    wait, but a request for a process waits until the import is done: make none in code that must
    not wait.
    """

    def __init__(self, reference: Reference) -> None:
        self._adopted = adopts_orphans()
        self._said = _memory()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, Path(os.devnull).open("rb") as nothing:
            text = msgspec.json.encode(reference).decode()
            spec = ProcessSpec(ChildModule.PRELOAD, (text, str(theirs.fileno())))
            streams = (nothing, self._said, self._said)
            self._process = child.spawn(spec, streams, inherits=[theirs.fileno()])
        self._line = ours
        self.why_not = ""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def start(
        self,
        spec: ProcessSpec,
        log: Path,
        *,
        stdin: IO[bytes] | None = None,
        stdout: IO[bytes] | None = None,
    ) -> Child:
        """Start a process: forked, or else from scratch.

        Raises:
            DeadlineExceeded: the import of the code takes too long.
        """
        with child.streams_to(log, stdin, stdout) as streams:
            pid = self._ask(spec, streams, START_SECONDS)
            return Child(pid or child.spawn(spec, streams), log)

    def forked(self, spec: ProcessSpec, log: Path) -> Child | None:
        """As ``start``, but None if the process cannot be forked.

        Raises:
            DeadlineExceeded: the import of the code takes too long.
        """
        with child.streams_to(log) as streams:
            pid = self._ask(spec, streams, START_SECONDS)
        return Child(pid, log) if pid else None

    def answer(
        self, module: str, arguments: Sequence[str], seconds: float, each: float
    ) -> ProcessAnswer:
        """Run a process to its end; its output has all lines but those of ``under_way``.

        Raises:
            NoAnswer: code of the user's did not return within ``each`` seconds; it was killed.
            DeadlineExceeded: all of it took longer than ``seconds``; it was killed.
        """
        deadline, spec = Deadline(seconds), ProcessSpec(module, tuple(arguments))
        with _memory() as out, Path(os.devnull).open("rb") as nothing:
            streams = (nothing, out, self._said)
            pid = self._ask(spec, streams, seconds)
            made = Child(pid or child.spawn(spec, streams), Path(os.devnull))
            try:
                look = each
                while not made.ends_within(min(deadline.left, look)):
                    begun = last(_content(out))
                    look = each - (time.monotonic() - begun.since) if begun.who else each
                    if look <= 0:
                        raise NoAnswer(begun.who, begun.call, each)
                    if deadline.passed:
                        raise DeadlineExceeded(module, seconds)
            finally:
                made.kill()
            answer = _content(out).strip().rpartition(b"\n")[2]
            return ProcessAnswer(made.died() or 0, answer, _content(self._said))

    def _ask(self, spec: ProcessSpec, streams: child.Streams, seconds: float) -> int:
        """The process id of a new process; 0 if none can be forked, see ``why_not``."""
        if self.why_not:
            return 0
        adopt_orphans()
        try:
            numbers = [stream.fileno() for stream in streams]
            socket.send_fds(self._line, [msgspec.json.encode(spec)], numbers)
            self._line.settimeout(seconds)
            answer = self._line.recv(_ANSWER_BYTES)
        except TimeoutError:
            raise DeadlineExceeded("the import of the workload's code", seconds) from None
        except OSError:
            answer = b""
        forked = msgspec.json.decode(answer, type=Forked) if answer else Forked(why="it has ended")
        self.why_not = forked.why
        return forked.pid

    def close(self) -> None:
        """End the preload process; processes that it forked live on. Twice is fine."""
        adopt_orphans(self._adopted)
        self._line.close()
        self._said.close()
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _memory() -> IO[bytes]:
    return os.fdopen(os.memfd_create("artos"), "w+b")


def _content(file: IO[bytes]) -> bytes:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)


if __name__ == "__main__":
    sys.exit(main())
