"""A sidecar: a process that moves data for the process that started it, and the pipe between them.

A sidecar's first two arguments are its orders, as JSON, and the descriptor of its control pipe.
Messages go either way; the pipe breaks when one of the two processes ends. A sidecar that was
killed or has failed is started again.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from artos.clock import Clock, Deadline
from artos.errors import BadMessage, DataPathFailed
from artos.protocol import codec
from artos.protocol.message import Message
from artos.system.child import Child, ProcessSpec, start
from artos.system.closing import Closing
from artos.system.exit_report import ExitReport

_AT_ONCE = 1 << 16
"""Most bytes that go through the pipe as they are: what does not fit its buffer never would."""
_IN_A_FILE = b"\0"
"""Says that a larger message comes as a file in memory. No message begins so."""


class ControlPipe(Closing):
    """One end of a pair of connected sockets; only ``get`` blocks, and ``send`` if asked to.

    The kernel closes the other end when its process ends, so ``cut`` shows that at once.
    Malformed messages are dropped.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        end.setblocking(False)
        self.cut = False
        """Whether the other end is gone."""

    @classmethod
    def pair(cls) -> tuple[ControlPipe, socket.socket]:
        """An end to keep and an end for a new process; close the latter once the process has it."""
        mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(mine), other

    @classmethod
    def held(cls, descriptor: int) -> ControlPipe:
        """The end that this process inherited."""
        end = socket.socket(fileno=descriptor)
        end.set_inheritable(False)
        return cls(end)

    def fileno(self) -> int:
        """For polling: readable when there is a message or the other end is gone."""
        return self._end.fileno()

    def send(self, message: Message, seconds: float = 0.0) -> bool:
        """Send; False if the other end is gone, or reads nothing within ``seconds``."""
        data, deadline = codec.encode(message), Deadline(seconds)
        with ExitStack() as stack:
            files = []
            if len(data) > _AT_ONCE:
                file = stack.enter_context(os.fdopen(os.memfd_create("artos"), "wb", 0))
                file.write(data)
                data, files = _IN_A_FILE, [file.fileno()]
            while True:
                try:
                    socket.send_fds(self._end, [data], files)
                except BlockingIOError:
                    if not select.select([], [self._end], [], deadline.left)[1]:
                        return False
                except OSError:
                    return False
                else:
                    return True

    def take(self) -> Iterator[Message]:
        """The messages that have come; afterwards ``cut`` says whether the other end is gone."""
        while not self.cut:
            try:
                data, files, *_ = socket.recv_fds(self._end, _AT_ONCE, 1, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError:
                data, files = b"", []
            if not data:
                self.cut = True
                return
            for each in files:
                with os.fdopen(each, "rb"):
                    data = os.pread(each, os.fstat(each).st_size, 0)
            try:
                message = codec.decode(data)
            except BadMessage:
                continue
            yield message

    def get(self, seconds: float) -> Message | None:
        """The next message; None if none came in time or the other end is gone."""
        deadline = Deadline(seconds)
        while True:
            for message in self.take():
                return message
            if self.cut or not select.select([self._end], [], [], deadline.left)[0]:
                return None

    def close(self) -> None:
        """Close this end; may be called twice."""
        self._end.close()
        self.cut = True


@dataclass
class Retries:
    """When a process that has ended is started again: at once, then after pauses that grow."""

    failures: int = 5
    """How many of its own failures in a row are allowed."""
    kills: int = 25
    """How many ends in a row are allowed that may have been caused from outside."""
    calm: float = 30.0
    """A process that lived for this many seconds counts as healthy: both rows begin again."""
    pause: float = 0.1
    """The first pause, in seconds; each one after it is twice as long."""
    longest: float = 5.0
    """The longest pause, in seconds."""
    _rows: dict[bool, int] = field(default_factory=dict, repr=False)

    def after(self, death: ExitReport, lived: float) -> float | None:
        """Seconds to wait before the next start; None: give up."""
        if lived >= self.calm:
            self._rows.clear()
        row = self._rows[death.own] = self._rows.get(death.own, 0) + 1
        if row > (self.failures if death.own else self.kills):
            return None
        return 0.0 if row == 1 else min(self.longest, self.pause * 2.0 ** (row - 2))


class Sidecar:
    """A sidecar process, started again as often as needed.

    A restarted process knows nothing of earlier messages, so the message ``first`` has to contain
    all that it must know.
    """

    def __init__(self, module: str, log: Path, clock: Clock) -> None:
        self._module, self.log, self._clock = module, log, clock
        self._retries = Retries()
        self._child: Child | None = None
        self._control_pipe: ControlPipe | None = None
        self.log_tail = ""
        """The last lines of its log, once it has ended."""
        self._began = 0.0
        self._again: float | None = None

    @property
    def pid(self) -> int | None:
        """The process id; None while the sidecar does not run."""
        return None if self._child is None else self._child.pid

    def start(self, orders: msgspec.Struct, first: Message, inherits: Sequence[int] = ()) -> None:
        """Start the sidecar; it must not be running."""
        self._control_pipe, end = ControlPipe.pair()
        arguments = (msgspec.json.encode(orders).decode(), str(end.fileno()))
        with end:
            spec = ProcessSpec(self._module, arguments, keeps_heap=True)
            self._child = start(spec, self.log, inherits=[end.fileno(), *inherits])
        self._began, self._again = self._clock.now(), None
        self._control_pipe.send(first)

    def tell(self, message: Message, seconds: float = 0.0) -> bool:
        """Send a message; False if the sidecar does not run, or reads nothing for ``seconds``."""
        return self._control_pipe is not None and self._control_pipe.send(message, seconds)

    def answer(self, seconds: float) -> Message | None:
        """The sidecar's next message; None if it has ended or none came in time."""
        return None if self._control_pipe is None else self._control_pipe.get(seconds)

    def due(self) -> bool:
        """Reap the sidecar if it has ended; returns whether it is to be started again now.

        Raises:
            DataPathFailed: it failed, or was killed, too often in a row.
        """
        if (child := self._child) is not None:
            child.cap_log()
            if (status := child.died()) is not None:
                death = ExitReport.of_process(child.pid, status, child.log_tail())
                self._release()
                now = self._clock.now()
                pause = self._retries.after(death, now - self._began)
                if pause is None:
                    raise DataPathFailed(self._module, death.why)
                self._again = now + pause
        return self._again is not None and self._clock.now() >= self._again

    def hang_up(self) -> None:
        """Close the control pipe, which tells the sidecar to end. Call ``end`` next."""
        if self._control_pipe is not None:
            self._control_pipe.close()

    def end(self, seconds: float) -> bool:
        """Let it end by itself for ``seconds``, then kill it; returns whether its status was 0."""
        child = self._child
        if child is None:
            return False
        child.end(seconds)
        self.log_tail = child.log_tail()
        # Only now: a second Ctrl-C during the wait above must find the child and kill it.
        self._release()
        return child.died() == 0

    def _release(self) -> None:
        if self._control_pipe is not None:
            self._control_pipe.close()
        self._child = self._control_pipe = self._again = None

    def __repr__(self) -> str:
        return f"<Sidecar {self._module} pid={self.pid}>"
