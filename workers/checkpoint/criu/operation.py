"""One request to one CRIU process: sent now, answered later; only ``wait`` blocks."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from artos.clock import Clock, Deadline
from artos.errors import ArtosError, DeadlineExceeded
from artos.system.pidfd import PidFd
from artos.system.private_folder import open_own
from artos.system.regular_file import opened
from workers.checkpoint.criu.options import CriuAnswer
from workers.host import priority

_LONGEST_ANSWER = 1 << 16
_PATIENCE = 5.0


@dataclass(frozen=True)
class Outcome:
    """A request that succeeded: the process dumped or restored, and the seconds it took."""

    pid: int
    seconds: float


class Task(ABC):
    """The purpose of a request, and the reaction to its end."""

    @property
    @abstractmethod
    def name(self) -> str:
        """A name for messages."""

    @abstractmethod
    def done(self, answer: CriuAnswer, seconds: float) -> Outcome:
        """The outcome, once CRIU has reported success and exited."""

    @abstractmethod
    def failed(self, why: str, answer: CriuAnswer | None) -> ArtosError:
        """Clean up after a failure; returns the error for the caller.

        ``why`` is the reason if CRIU gave none, else "".
        """


class Worker:
    """A CRIU process with a socket to it; it gets one request and exits after its answer.

    ``request`` encodes it, given the open ``folder`` of the image. ``keep`` are descriptors
    that CRIU inherits, ``mark`` is added to its environment.
    """

    def __init__(
        self,
        command: Sequence[str],
        request: Callable[[int], bytes],
        folder: Path,
        log: Path,
        keep: Sequence[int] = (),
        mark: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._folder = open_own(folder)  # an image from another node may hold any links
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, opened(log, "ab") as errors:
                self._socket.send(request(self._folder))
                self._process = subprocess.Popen(
                    [*command, "swrk", str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,  # errors from before CRIU opens its log
                    env={**os.environ, **mark},
                    pass_fds=(theirs.fileno(), *keep),
                    start_new_session=True,  # a group of its own, to be killed as a whole
                )
            self._pidfd = PidFd(self._process.pid)
        except BaseException:
            self._let_go()
            raise

    @property
    def pid(self) -> int:
        """CRIU's process id."""
        return self._process.pid

    @property
    def reaped(self) -> bool:
        """Whether it was closed, or that was begun: an interrupt may have ended ``close`` early."""
        return self._process.returncode is not None

    def has_exited(self) -> bool:
        """Whether CRIU has exited; asking does not reap it."""
        return self._pidfd.has_ended()

    def wait(self, seconds: float) -> bool:
        """Sleep until CRIU has exited, at most ``seconds``."""
        return self._pidfd.wait(seconds)

    def answer(self) -> CriuAnswer | None:
        """CRIU's answer; None if it died before answering."""
        try:
            data = self._socket.recv(_LONGEST_ANSWER, socket.MSG_DONTWAIT)
        except (BlockingIOError, ConnectionError):
            return None
        return CriuAnswer.decode(data) if data else None

    def kill(self) -> None:
        """Kill CRIU and the helpers it forked (SIGKILL)."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> int:
        """Reap CRIU, which must have exited or been killed; returns its exit status.

        May be called again, as an interrupt may have ended it early.
        """
        status = self._process.wait(_PATIENCE)
        self._pidfd.close()
        self._let_go()
        return status

    def _let_go(self) -> None:
        self._socket.close()
        if self._folder >= 0:
            folder, self._folder = self._folder, -1
            os.close(folder)


class Operation:
    """A dump or restore under way. ``poll`` has news when CRIU exits (SIGCHLD).

    Poll until there is an outcome or an error, or ``cancel``: until then the operation holds a
    process and two descriptors. Later polls give the same outcome or error again.
    """

    def __init__(self, task: Task, worker: Worker, clock: Clock, limit: float) -> None:
        self._task, self._worker, self._clock, self._limit = task, worker, clock, limit
        self._began = clock.now()
        self._outcome: Outcome | None = None
        self._error: ArtosError | None = None

    @property
    def due(self) -> float:
        """The time (clock) at which ``poll`` takes CRIU for hung and gives up."""
        return self._began + self._limit

    @property
    def criu_pid(self) -> int:
        """The process id of CRIU."""
        return self._worker.pid

    def lower_priority(self) -> None:
        """Give CRIU a low share of the CPU, if that can be undone: nothing waits for it yet."""
        if self._outcome is None and self._error is None:
            priority.lower(self._worker.pid)

    def hurry(self) -> None:
        """Give CRIU the usual priority: it is waited for now. No error if it has ended."""
        if self._outcome is None and self._error is None:
            priority.usual(self._worker.pid)

    def poll(self) -> Outcome | None:
        """The outcome, or None while CRIU works. Never waits.

        Raises:
            CheckpointRefused: the dump failed; the process runs on.
            RestoreFailed: the restore failed; no process is left of it.
        """
        if self._error is not None:
            raise self._error
        if self._outcome is None and self._worker.has_exited():
            answer = self._worker.answer()
            if answer is None or not answer.success:
                self._worker.kill()  # the helpers that a dead CRIU left
                self._fail("" if answer is not None else "CRIU died in the middle", answer)
            else:
                self._worker.close()
                try:
                    self._outcome = self._task.done(answer, self._clock.now() - self._began)
                except ArtosError as error:
                    self._error = error
        elif self._outcome is None and self._clock.now() >= self.due:
            self._give_up(f"CRIU did not finish within {self._limit:g} s")
        if self._error is not None:
            raise self._error
        return self._outcome

    def wait(self, seconds: float) -> Outcome:
        """Wait for the outcome, at most ``seconds``.

        Raises:
            DeadlineExceeded: CRIU has not finished.
            CheckpointRefused, RestoreFailed: as ``poll``.
        """
        deadline = Deadline(seconds)
        while (outcome := self.poll()) is None:
            if deadline.passed:
                raise DeadlineExceeded(f"the {self._task.name}", seconds)
            self._worker.wait(min(deadline.left, self.due - self._clock.now()))
        return outcome

    def cancel(self) -> None:
        """Kill CRIU and remove its unfinished work. No error if the operation has ended.

        An interrupt may have ended ``poll`` at any point.
        """
        if self._outcome is not None or self._error is not None:
            return
        if self._worker.reaped:  # its id may be another process's now
            self._fail("it was cancelled", None)
        else:
            self._give_up("it was cancelled")

    def _give_up(self, why: str) -> None:
        self._worker.kill()
        self._worker.wait(_PATIENCE)
        self._fail(why, self._worker.answer())

    def _fail(self, why: str, answer: CriuAnswer | None) -> None:
        status = self._worker.close()
        if why and answer is None:
            how = f"signal {-status}" if status < 0 else f"exit status {status}"
            why = f"{why} ({how})"
        self._error = self._task.failed(why, answer)

    def __repr__(self) -> str:
        state = "done" if self._outcome else "failed" if self._error else "under way"
        return f"<Operation {self._task.name} {state}>"
