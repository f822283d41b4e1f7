"""The process that the CRIU tests dump and restore: an actor in miniature.

``serve SEGMENT`` answers each ring of its doorbell by counting; ``template IDENTITY`` waits for
SIGUSR1 and then serves in the segment that it reads from descriptor 100. More words after these
make it do what a dump may not like.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import sys
import threading
from pathlib import Path

from artos.buffer.doorbell import Doorbell
from artos.buffer.segment import Segment
from artos.system.child import end_with_parent

IDENTITY_FD = 100
BYTES = 4096
ASK, ANSWER, WORDS = 0, 64, 128
COUNT, PID, SUM = range(3)
"""Words in the segment: rings answered, the process's own number, what ``SUM`` found in memory."""

# A semaphore outlives its waiter: one restored from an older image may not be counted as waiting
# any more, and a ring would not wake it. So look again now and then.
_SLICE = 0.5
_keep: list[object] = []


def main(mode: str, place: str, *extras: str) -> None:
    """Do as the arguments say until killed."""
    for extra in extras:
        _keep.append(EXTRAS[extra](Path(place)))
    if mode == "template":
        place = _become_someone(Path(place))
    serve(Segment.attach(Path(place)))


def _become_someone(identity: Path) -> str:
    descriptor = os.open(identity, os.O_RDONLY)
    os.dup2(descriptor, IDENTITY_FD)
    os.close(descriptor)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    ready = Segment.attach(Path(os.pread(IDENTITY_FD, BYTES, 0).decode()))
    Doorbell(ready.memory, ANSWER).ring()
    signal.sigwait({signal.SIGUSR1})
    return os.pread(IDENTITY_FD, BYTES, 0).decode()


def serve(segment: Segment) -> None:
    """Count rings; the ballast is looked at each time, so pages that got lost are noticed."""
    ask, answer = Doorbell(segment.memory, ASK), Doorbell(segment.memory, ANSWER)
    words = segment.memory[WORDS:].cast("q")
    count = 0
    while True:
        print("served", count, flush=True)
        words[COUNT], words[PID], words[SUM] = count, os.getpid(), _look_at_ballast()
        answer.ring()
        while not ask.wait(_SLICE):
            pass
        count += 1


def _look_at_ballast() -> int:
    return sum(memory[at] for memory in _ballast for at in range(0, len(memory), 4096))


_ballast: list[bytearray] = []


def _add_ballast(_: Path) -> None:
    _ballast.append(bytearray(b"\1") * (64 << 20))


def _connect(_: Path) -> object:
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    return server, client, server.accept()


def _talk_to_somebody_else(place: Path) -> object:
    ours = socket.socket(socket.AF_UNIX)
    ours.connect(str(place.with_name("peer")))
    return ours


def _lock_a_file(_: Path) -> object:
    file = Path(__file__).open()  # noqa: SIM115
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


def _start_thread(_: Path) -> object:
    thread = threading.Thread(target=threading.Event().wait, daemon=True)
    thread.start()
    return thread


def _end_with_parent(_: Path) -> None:
    end_with_parent()


def _open_device(_: Path) -> object:
    devices = map(Path, ("/dev/loop-control", "/dev/fuse", "/dev/kvm"))
    return next(device for device in devices if device.exists()).open("rb", buffering=0)


def _set_up_io_uring(_: Path) -> object:
    set_up, parameters = 425, ctypes.create_string_buffer(120)
    assert ctypes.CDLL(None).syscall(set_up, 4, parameters) > 0
    return parameters


EXTRAS = {
    "device": _open_device,
    "io_uring": _set_up_io_uring,
    "bound": _end_with_parent,
    "ballast": _add_ballast,
    "tcp": _connect,
    "unix": _talk_to_somebody_else,
    "lock": _lock_a_file,
    "thread": _start_thread,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
