"""Ctrl-C, SIGTERM and SIGHUP as requests to stop, which never leave anything behind."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, TracebackType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CLOSE = signal.SIGUSR2
"""What a daemon sends its run processes and executors to end them, which ignore SIGTERM: an engine
may send that to every process of a job, and the daemon is to say when each ends."""


class StopRequests:
    """Counts requests to stop, and lets each phase of a run decide what they do.

    While nothing has been created yet, any request raises ``KeyboardInterrupt``. Under ``held``
    requests are only counted. Under ``draining`` the first one drains and the second one raises.
    After two, none raises any more: the rest of the run is being removed. Work that must not be
    interrupted, such as making a process and recording that it exists, is done ``undisturbed``:
    requests take effect when it is over. Those that come within ``settle`` seconds of one are the
    same, as where an engine signals a whole job and each process passes it on.
    """

    def __init__(self, signals: Sequence[signal.Signals] = STOPPING, settle: float = 0.0) -> None:
        self.received = 0
        self._signals, self._settle, self._last = signals, settle, float("-inf")
        self._busy, self._postponed = False, 0
        self._react = self._interrupt
        self._before: dict[signal.Signals, object] = {}

    @contextmanager
    def held(self) -> Iterator[None]:
        """Only count requests."""
        with self._phase(lambda: None):
            yield

    @contextmanager
    def draining(self, drain: Callable[[], None]) -> Iterator[None]:
        """The first request calls ``drain``, the second raises; earlier requests count, too."""

        def react() -> None:
            if self.received == 1:
                drain()
            elif self.received == 2:
                self._interrupt()

        with self._phase(react):
            for count in range(1, self.received + 1):
                drain() if count == 1 else self._interrupt()
            yield

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Finish the block, then react to requests that came during it."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
            while self._postponed:
                self._postponed -= 1
                self._count_request()

    @contextmanager
    def _phase(self, react: Callable[[], None]) -> Iterator[None]:
        before, self._react = self._react, react
        try:
            yield
        finally:
            self._react = before

    @staticmethod
    def _interrupt() -> None:
        raise KeyboardInterrupt

    def __enter__(self) -> StopRequests:
        for number in self._signals:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self._last < self._settle:
            return
        self._last = now
        if self._busy:
            self._postponed += 1
        else:
            self._count_request()

    def _count_request(self) -> None:
        self.received += 1
        self._react()


@contextmanager
def child_deaths(ring: Callable[[], None]) -> Iterator[None]:
    """Call ``ring`` whenever a child process ends, so that a sleeping supervisor looks at once."""
    before = signal.signal(signal.SIGCHLD, lambda number, frame: ring())
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before)


def forget_interrupt() -> None:
    """Tell the interpreter that a ``KeyboardInterrupt`` has been caught, before an exit status.

    CPython remembers one that came while ``exec`` ran a text, as it does for each data class, and
    ends a process started with ``-m`` by SIGINT for it in the end, whatever has caught it since.
    The next text that is run makes it forget.
    """
    exec("")
