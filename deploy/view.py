"""The live view of a run: a panel in a terminal, plain lines in a log, only notes when quiet."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import IO, Literal, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from artos.clock import Clock, SystemClock
from deploy import screen
from head.records.episodes import Episodes
from head.records.run_folder import RunFolder
from head.status import Status, Summary

Mode = Literal["live", "lines", "quiet", "silent"]
"""``quiet`` still has notes, ``silent`` is for a stream that broke."""

PERIOD: dict[Mode, float] = {"live": 0.25, "lines": 5.0}
"""Seconds between two pictures; drawing shares the cores with training."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let the view handle it; the original would end the process."""
        raise BrokenPipeError


class LiveView:
    """Shows statuses on ``stream`` while its ``with`` block lasts.

    A stream that breaks (``artos run … | head``) silences the view; it never stops the run.
    """

    def __init__(self, stream: TextIO, *, quiet: bool = False, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._console = _Console(file=stream, force_terminal=stream.isatty(), highlight=False)
        self._ascii = not (stream.encoding or "ascii").lower().replace("-", "").startswith("utf")
        self.mode: Mode = "quiet" if quiet else _mode(self._console)
        self._due = self._clock.now()
        self._live: Live | None = None

    @property
    def due(self) -> bool:
        """Whether ``show`` would draw now; asking costs next to nothing."""
        return self.mode in PERIOD and self._clock.now() >= self._due

    def show(self, status: Status) -> None:
        """Show the newest status, if it is time to."""
        if not self.due:
            return
        self._due = self._clock.now() + PERIOD[self.mode]
        self._safely(lambda: self._draw(status))

    def note(self, text: str) -> None:
        """Print one line at once: a restart, a warning, what Ctrl-C set going."""
        if self.mode != "silent":
            self._safely(lambda: self._console.print(Text(text), soft_wrap=True))

    def finish(self, summary: Summary, folder: RunFolder) -> None:
        """End the live panel and show the outcome, a small learning curve and the paths."""
        self._stop()
        if self.mode not in PERIOD:
            return
        paths = {"run folder": str(folder.path)}
        if folder.curve.exists():
            paths["curve"] = str(folder.curve)
        end = screen.final(summary, Episodes.read(folder.episodes), paths, ascii_only=self._ascii)
        self._safely(lambda: self._console.print(end, soft_wrap=True))

    def __enter__(self) -> LiveView:
        if self.mode == "live":
            self._live = Live(
                console=self._console, auto_refresh=False, transient=True,
                redirect_stdout=sys.stdout.isatty(), redirect_stderr=sys.stderr.isatty(),
            )  # fmt: skip
            self._safely(self._live.start)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _draw(self, status: Status) -> None:
        if self._live is None:
            self._console.print(Text(screen.line(status)), soft_wrap=True)
            return
        picture = screen.panel(status, self._console.width, ascii_only=self._ascii)
        self._live.update(picture, refresh=True)

    def _stop(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            self._safely(live.stop)

    def _safely(self, effect: Callable[[], object]) -> None:
        try:
            effect()
        except BrokenPipeError:
            self.mode = "silent"
            _drain(self._console.file)
        except OSError:
            self.mode = "silent"

    def __repr__(self) -> str:
        return f"<LiveView {self.mode}>"


def _drain(stream: IO[str]) -> None:
    """Send what is left in a stream without a reader nowhere, or its flush at exit fails anew."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    except OSError:
        return  # no real file
    finally:
        os.close(nowhere)


def _mode(console: Console) -> Mode:
    return "live" if console.is_terminal and not console.is_dumb_terminal else "lines"
