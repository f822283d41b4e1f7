"""Imports a workload's code once; every process of the workload is then forked from here.

``python -P -m artos.runtime.preload REFERENCE_JSON SOCKET``. SOCKET is the number of an inherited
descriptor, a Unix socket of packets. A request is a ``ProcessSpec`` as JSON, with the descriptors
that are to be the new process's standard streams; the answer is a ``Forked``. The new process goes
on as ``python -m MODULE ARGUMENTS`` would, but with everything imported. It belongs to this
process's parent, which must adopt orphans (see ``forking``).

It only imports, so forked processes find the workload as a fresh process would. A failing import
is not reported here: registration, the first forked process, meets it again.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import socket
import sys
import threading
from typing import NoReturn

import msgspec

from artos.reference import Reference
from artos.system import child, heap
from artos.system.child import ProcessSpec
from artos.system.forking import fork_aside

STREAMS = 3
_MOST = 1 << 17


class Forked(msgspec.Struct, frozen=True):
    """The process id of the new process, or why there is none."""

    pid: int = 0
    why: str = ""


def main() -> int:
    """Import, then fork on request until the other end is closed."""
    child.begin_member()
    server = socket.socket(fileno=int(sys.argv[2]))
    _preload(msgspec.json.decode(sys.argv[1], type=Reference))
    sys.stdout.flush()  # or every forked process would print user code's output again
    gc.freeze()  # or the collector would touch, and so copy, every page in every process
    spec = _served(server)
    if spec is not None:
        _end(_go_on_as(spec))
    return 0


def _preload(reference: Reference) -> None:
    # Slow imports only now: if the parent dies meanwhile, this process ends too.
    import artos.runtime.register  # noqa: PLC0415
    import artos.runtime.serving  # noqa: F401, PLC0415
    from artos.errors import Refused  # noqa: PLC0415
    from artos.runtime.reference import load_object  # noqa: PLC0415

    try:
        load_object(reference.source, reference.folder)
    except Refused:
        return


def _served(server: socket.socket) -> ProcessSpec | None:
    """Serve requests. Returns in every new process what it is to be, and None here at the end."""
    while True:
        packet, descriptors, _, _ = socket.recv_fds(server, _MOST, STREAMS)
        if not packet:
            return None
        spec = msgspec.json.decode(packet, type=ProcessSpec)
        answer = _answer(spec)
        if answer is None:
            server.close()
            _take_streams(descriptors)
            return spec
        for descriptor in descriptors:
            os.close(descriptor)
        server.send(msgspec.json.encode(answer))


def _answer(spec: ProcessSpec) -> Forked | None:
    if others := len(os.listdir("/proc/self/task")) - 1:  # noqa: PTH208 (names)
        return Forked(why=f"user code started {others} threads when it was imported")
    try:
        pid = fork_aside(apart=spec.apart)
    except OSError as error:
        return Forked(why=str(error))
    return Forked(pid) if pid else None


def _take_streams(descriptors: list[int]) -> None:
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)


def _go_on_as(spec: ProcessSpec) -> int:
    child.forked = True
    sys.argv = [spec.module, *spec.arguments]
    os.environ.update(child.computing(spec.threads))
    if spec.threads > 1:  # the libraries that are loaded have read their variables
        from threadpoolctl import threadpool_limits  # noqa: PLC0415

        threadpool_limits(spec.threads)
    if spec.keeps_heap:
        heap.begin()
    status: int = importlib.import_module(spec.module).main()
    return status


def _end(status: int) -> NoReturn:
    """End in order without tear-down, which would touch, and so copy, all of the memory.

    It is what ``multiprocessing`` does in processes that it forks.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    sys.exit(main())
