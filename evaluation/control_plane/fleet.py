"""Simulated workers: many messengers in a process; each sends what a worker daemon sends."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from artos.errors import DeadlineExceeded
from artos.protocol import control
from artos.protocol.message import Refusal
from artos.system.closing import Closing
from artos.transport.keys import Keys
from artos.transport.messenger import HEAD, Messenger
from artos.version import VERSION

_SLOTS, _MEMORY_MB = 16, 4096
_LOAD_PERIOD = 1.0
_PATIENCE, _LOOK_SECONDS = 120.0, 0.002
_LOAD = control.Load(cpu=0.5, memory=0.5)
_NO_ARCHIVE = control.FetchArchive("0" * 64)


class Worker:
    """One simulated worker node."""

    def __init__(self, endpoint: str, keys: Keys, name: str) -> None:
        self.name, self.welcome, self.answers = name, False, 0
        self._messenger = Messenger.connect(endpoint, keys, name, ring=lambda: None)
        self._messenger.send(
            HEAD, control.Hello(name, control.PROTOCOL, VERSION, _SLOTS, _MEMORY_MB)
        )

    def hear(self) -> None:
        """Read the head's messages.

        Raises:
            SystemExit: the head refused a message.
        """
        for _, message in self._messenger.take():
            if isinstance(message, Refusal):
                raise SystemExit(f"{self.name} was refused: {message.why}")
            self.welcome |= isinstance(message, control.Welcome)
            self.answers += isinstance(message, control.ArchivePiece)

    def report(self, times: int = 1) -> None:
        """Report the node's load ``times`` times."""
        for _ in range(times):
            self._messenger.send(HEAD, _LOAD)

    def ask(self) -> None:
        """Ask for an archive that does not exist: the answer shows that the head has read all."""
        self._messenger.send(HEAD, _NO_ARCHIVE)

    def die(self) -> float:
        """End, so that the connection is closed; returns the time (monotonic seconds)."""
        self._messenger.close()
        return time.monotonic()


def serve(endpoint: str, folder: Path, names: Sequence[str], line: Connection) -> None:
    """The process of a fleet: reports every second, and obeys orders from the pipe ``line``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))
    threading.stack_size(256 << 10)
    keys = Keys.load(folder)
    workers = [Worker(endpoint, keys, name) for name in names]
    due = time.monotonic()
    while True:
        if line.poll(max(0.0, due - time.monotonic())):
            order, value = line.recv()
            _obey(workers, order, value, line)
        if time.monotonic() >= due:
            due += _LOAD_PERIOD
            for worker in workers:
                worker.hear()
                if worker.welcome:
                    worker.report()


def _obey(workers: list[Worker], order: str, value: int, line: Connection) -> None:
    match order:
        case "welcome":
            line.send(all(worker.welcome for worker in workers))
        case "report":
            _flood(workers, value)
            line.send(True)
        case "kill":
            worker = workers.pop()
            line.send((worker.name, worker.die()))


def _flood(workers: Sequence[Worker], reports: int) -> None:
    """Have each worker report ``reports`` times at once; returns once the head has read all.

    Raises:
        DeadlineExceeded: the head has not read all in time.
    """
    wanted = {worker: worker.answers + 1 for worker in workers}
    for worker in workers:
        worker.report(reports)
        worker.ask()
    deadline = time.monotonic() + _PATIENCE
    while late := [worker for worker, answers in wanted.items() if worker.answers < answers]:
        if time.monotonic() > deadline:
            raise DeadlineExceeded(f"answers to {len(late)} workers", _PATIENCE)
        time.sleep(_LOOK_SECONDS)
        for worker in late:
            worker.hear()


class Fleet(Closing):
    """The benchmark's handle on a process of workers, which is killed at the end."""

    def __init__(self, endpoint: str, keys: Path, names: Sequence[str]) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, end = context.Pipe()
        self._stack = ExitStack()
        self._process = context.Process(target=serve, args=(endpoint, keys, names, end))
        self._process.start()
        self._stack.callback(self._process.join)
        self._stack.callback(self._process.kill)

    def welcome(self) -> bool:
        """Whether the head knows all workers of the process."""
        self._order("welcome")
        return bool(self._answer())

    def report(self, times: int) -> None:
        """Have every worker report ``times`` times at once."""
        self._order("report", times)

    def reported(self) -> None:
        """Wait until the head has read all of these reports."""
        self._answer()

    def kill(self) -> tuple[str, float]:
        """Let one worker end; returns its name and the time (monotonic seconds)."""
        self._order("kill")
        told: tuple[str, float] = self._answer()
        return told

    def freeze(self) -> float:
        """Stop the process, whose workers have just reported; returns the time (monotonic seconds).

        They fall silent, and their connections stay.
        """
        self.report(1)
        self.reported()
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        return time.monotonic()

    def _order(self, order: str, value: int = 0) -> None:
        try:
            self._line.send((order, value))
        except BrokenPipeError:
            self._is_gone()

    def _answer(self) -> Any:
        if not self._line.poll(_PATIENCE):
            raise DeadlineExceeded("an answer of simulated workers", _PATIENCE)
        try:
            return self._line.recv()
        except EOFError:
            self._is_gone()

    def _is_gone(self) -> NoReturn:
        self._process.join(1.0)
        code = self._process.exitcode
        raise SystemExit(f"a process of simulated workers ended by itself, with status {code}")

    def close(self) -> None:
        """End the process."""
        self._stack.close()
