"""Trackers beside a run that goes on here: processes that may fail, and then say so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from artos.clock import Clock, Deadline
from artos.protocol.views import Status
from artos.system.closing import Closing
from artos.system.regular_file import contents, opened
from deploy.display.logged_view import LoggedView
from deploy.display.view import LiveView
from head.records.run_folder import LOGS

_LOOK = 1.0  # seconds
_LAST = 20.0
"""Seconds that all trackers together have to send what is left once a run is over."""


class Alongside(Closing):
    """The processes of the trackers ``names``, from ``begin`` until the run is over.

    They read the run's folder and nothing else. None of them can slow or stop the run.
    """

    def __init__(self, names: Sequence[str], clock: Clock) -> None:
        self._names, self._clock = tuple(dict.fromkeys(names)), clock
        self._folder = Path()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._not_begun: dict[str, str] = {}
        """Why some did not begin, until that is told."""
        self._next = clock.now()

    @property
    def due(self) -> bool:
        """Whether to look after them."""
        return bool(self._running or self._not_begun) and self._clock.now() >= self._next

    def begin(self, folder: Path) -> None:
        """Start them for the run in that folder; ``faults`` tells of those that cannot be."""
        self._folder = folder
        for name in self._names:
            log = folder / LOGS / f"track-{name}.log"
            words = ["track", str(folder.resolve()), "--to", name, "--follow"]
            try:
                with opened(log, "ab") as file:
                    self._running[name] = subprocess.Popen(
                        [sys.executable, "-P", "-m", "deploy.cli", *words],
                        stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                        start_new_session=True,  # Ctrl-C is for the run, whose end they send
                    )  # fmt: skip
            except OSError as error:
                self._not_begun[name] = str(error)

    def faults(self) -> Iterator[str]:
        """What to tell of those that have failed since the last call."""
        self._next = self._clock.now() + _LOOK
        for name, why in [*self._not_begun.items()]:
            del self._not_begun[name]
            yield self._fault(name, why)
        for name, process in [*self._running.items()]:
            if (status := process.poll()) is not None:
                del self._running[name]
                if status:
                    said = ""
                    with suppress(OSError):
                        log = contents(self._folder / LOGS / f"track-{name}.log")
                        said = log[-4096:].decode(errors="replace").strip().rpartition("\n")[2]
                    yield self._fault(name, said or f"status {status}")

    def rest(self) -> Iterator[str]:
        """Once the run is over: wait until all is sent; what to tell of those that fail, or last.

        They go on by themselves if it takes longer.
        """
        deadline = Deadline(_LAST, self._clock)
        for process in self._running.values():
            with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):  # which hurries us
                process.wait(max(0.1, deadline.left))
        yield from self.faults()
        for name, process in self._running.items():
            yield f"{name} is still being sent the rest, by process {process.pid}"

    def _fault(self, name: str, why: str) -> str:
        return (
            f"tracker {name} has failed; the run goes on without it: {why} "
            f"(`artos track {self._folder} --to {name}` sends what is missing)"
        )

    def close(self) -> None:
        """Leave those that still run to themselves: they end after the run does."""
        for process in self._running.values():
            process.returncode = process.poll() or 0  # it is waited for by nobody
        self._running.clear()


class TrackedView(LoggedView):
    """A ``LoggedView`` that also looks after trackers."""

    def __init__(self, view: LiveView, log: Path, trackers: Alongside) -> None:
        super().__init__(view, log)
        self._trackers = trackers

    @property
    def due(self) -> bool:
        """Whether there may be something to show."""
        return super().due or self._trackers.due

    def show(self, status: Status) -> None:
        """Show a status, and tell of trackers that have failed."""
        if self._trackers.due:
            for text in self._trackers.faults():
                self.note(text)
        super().show(status)
