"""The live view of a run: a panel in a terminal, lines in a log, only messages when quiet."""

from __future__ import annotations

import io
import os
import sys
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from types import TracebackType
from typing import Literal, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from artos.clock import Clock, SystemClock
from artos.protocol.views import Status
from deploy.display import screen
from head.records.episodes import Episodes
from head.records.run_folder import RunFolder
from head.records.status import Summary

Mode = Literal["live", "lines", "quiet", "silent"]
"""``quiet`` prints only messages; ``silent`` prints nothing, as the stream is broken."""

PERIOD: dict[Mode, float] = {"live": 0.25, "lines": 5.0}
"""Seconds between two redraws; drawing shares the cores with training."""
_START_PERIOD = 0.25
_MOST_NOTES = 1000


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let the view handle a broken pipe; rich would end the process."""
        raise BrokenPipeError


class LiveView:
    """Shows the progress of a run on ``stream`` while its ``with`` block lasts.

    In a terminal the view uses the alternate screen, and prints the messages when it leaves that
    screen. Without a ``panel`` it prints lines there as well, and does not redirect other output.
    A stream that breaks (``artos run … | head``) silences the view but never stops the run.
    """

    def __init__(
        self, stream: TextIO, *, quiet: bool = False, panel: bool = True, clock: Clock | None = None
    ) -> None:
        self._clock = clock or SystemClock()
        self._console = _Console(file=stream, force_terminal=stream.isatty(), highlight=False)
        self._ascii = not (stream.encoding or "ascii").lower().replace("-", "").startswith("utf")
        is_screen = self._console.is_terminal and not self._console.is_dumb_terminal
        self.mode: Mode = "quiet" if quiet else "live" if panel and is_screen else "lines"
        self._due = self._clock.now()
        self._live: Live | None = None
        self._opened = ExitStack()
        self._phase = ""
        self._status: Status | None = None
        self._notes: deque[str] = deque(maxlen=_MOST_NOTES)

    @property
    def due(self) -> bool:
        """Whether ``show`` would draw now; cheap to call."""
        return self.mode in PERIOD and self._clock.now() >= self._due

    def phase(self, name: str) -> None:
        """Show the stage of the start, until there is a status."""
        if name != self._phase and self.mode in PERIOD:
            self._phase = name
            self._safely(lambda: self._say(f"starting: {name}"))

    def show(self, status: Status) -> None:
        """Show the newest status if a redraw is due."""
        if not self.due:
            return
        name = screen.phase(status)
        self._due = self._clock.now() + (_START_PERIOD if name else PERIOD[self.mode])
        self._status = status
        if name:
            self.phase(name)
        if self._live is not None:
            self._safely(self._draw)
        elif not name:
            self._safely(lambda: self._say(screen.line(status)))

    def note(self, text: str) -> None:
        """Print one line: a restart, a warning, the effect of Ctrl-C."""
        if self._live is not None:
            self._notes.append(text)  # drawn with the next status
        elif self.mode != "silent":
            self._safely(lambda: self._say(text))

    def last(self, status: Status) -> None:
        """Show the final status."""
        if self.mode == "lines":
            self._safely(lambda: self._say(screen.line(status, over=True)))

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
            live = Live(
                console=self._console,
                auto_refresh=False,
                screen=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._safely(live.start)
            self._live = live
            # Other output in the terminal becomes messages; the panel would paint over it.
            for stream, redirected in (
                (sys.stdout, redirect_stdout),
                (sys.stderr, redirect_stderr),
            ):
                if stream.isatty():
                    notes = self._opened.enter_context(_Notes(self.note))
                    self._opened.enter_context(redirected(notes))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _say(self, text: str) -> None:
        if self._live is None:
            self._console.print(Text(text), soft_wrap=True)
        else:
            self._draw()

    def _draw(self) -> None:
        if self._live is not None:
            status, notes = self._status, [*self._notes]
            if status is None:
                picture = screen.start(self._phase, notes)
            else:
                width = self._console.width
                picture = screen.panel(status, width, notes, ascii_only=self._ascii)
            self._live.update(picture, refresh=True)

    def _stop(self) -> None:
        self._opened.close()
        live, self._live = self._live, None
        if live is not None:
            self._safely(live.stop)
            for text in self._notes:
                self.note(text)
            self._notes.clear()

    def _safely(self, effect: Callable[[], object]) -> None:
        try:
            effect()
        except BrokenPipeError:
            self.mode = "silent"
            # Nobody reads the rest, so it goes nowhere, else its flush at exit fails again.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            try:
                with suppress(OSError):  # the stream is no real file
                    os.dup2(nowhere, self._console.file.fileno())
            finally:
                os.close(nowhere)
        except OSError:
            self.mode = "silent"

    def __repr__(self) -> str:
        return f"<LiveView {self.mode}>"


class _Notes(io.TextIOBase):
    """A stream that turns lines into messages."""

    encoding = "utf-8"

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note, self._begun = note, ""

    def write(self, text: str) -> int:
        """Pass on the complete lines and keep the last, incomplete one."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._note(line)
        return len(text)

    def close(self) -> None:
        """Pass on the last line, even if it is incomplete."""
        if self._begun:
            self.write("\n")
        super().close()
