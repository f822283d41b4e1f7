"""The supervisor's side of ``preload``: starts processes with the workload already imported."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from artos.clock import Deadline
from artos.errors import DeadlineExceeded
from artos.reference import Reference
from artos.runtime.preload import Forked
from artos.system import child
from artos.system.child import Child, ProcessSpec
from artos.system.child_modules import ChildModule
from artos.system.closing import Closing
from artos.system.exit_report import START_SECONDS
from artos.system.forking import adopt_orphans, adopts_orphans

_ANSWER_BYTES = 4096


class Answer(NamedTuple):
    """How a process ended, and what it wrote; ``said`` also has what was written at the import."""

    status: int
    out: bytes
    said: bytes


class Preloaded(Closing):
    """A process that imports the workload's code, once, and then forks on request.

    This process adopts what it forks, and so hears of its death at once. If it cannot fork (user
    code started threads, which a fork would not have; it was killed), processes are started from
    scratch: ``why_not`` says why. The constructor does not wait, but a request for a process waits
    until the import is done: make none in code that must not wait.
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
        """See ``child.Start``: forked, or started anew if that cannot be.

        Raises:
            DeadlineExceeded: it still imports, and takes too long.
        """
        with child.streams_to(log, stdin, stdout) as streams:
            pid = self._ask(spec, streams, START_SECONDS)
            return Child(pid or child.spawn(spec, streams), log)

    def forked(self, spec: ProcessSpec, log: Path) -> Child | None:
        """The same, but None if it cannot be forked.

        Raises:
            DeadlineExceeded: it still imports, and takes too long.
        """
        with child.streams_to(log) as streams:
            pid = self._ask(spec, streams, START_SECONDS)
        return Child(pid, log) if pid else None

    def answer(self, module: str, arguments: Sequence[str], seconds: float) -> Answer:
        """Run a process to its end.

        Raises:
            DeadlineExceeded: it took longer than ``seconds``; it was killed.
        """
        deadline, spec = Deadline(seconds), ProcessSpec(module, tuple(arguments))
        with _memory() as out, Path(os.devnull).open("rb") as nothing:
            streams = (nothing, out, self._said)
            pid = self._ask(spec, streams, seconds)
            made = Child(pid or child.spawn(spec, streams), Path(os.devnull))
            try:
                if not made.ends_within(deadline.left):
                    raise DeadlineExceeded(module, seconds)
            finally:
                made.kill()
            return Answer(made.died() or 0, _content(out), _content(self._said))

    def _ask(self, spec: ProcessSpec, streams: child.Streams, seconds: float) -> int:
        """The process id of a new process; 0 if there can be none, see ``why_not``."""
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
        """End it; what it forked lives on. Twice is fine."""
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
