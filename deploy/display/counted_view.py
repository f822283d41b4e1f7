"""How far long work is that consists of a known number of things."""

from __future__ import annotations

import time
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from artos.system.closing import Closing

_SECONDS = 5.0
"""Between two lines where there is no terminal."""


class CountedView(Closing):
    """Shows on ``stream`` how many of ``total`` things are done while its ``with`` block lasts.

    In a terminal it is a bar, which is removed at the end, elsewhere a line every five seconds.
    """

    def __init__(self, stream: TextIO, things: str, total: int, *, quiet: bool = False) -> None:
        self._things, self._total = things, total
        self._console = Console(file=stream, highlight=False)
        self._lines = not quiet and not self._console.is_terminal
        self._next = time.monotonic() + _SECONDS
        self._bar = Progress(
            TextColumn(things),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[steps]:,} steps"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=quiet or self._lines,
        )
        self._task = self._bar.add_task("", total=total, steps=0)
        self._bar.start()

    def show(self, done: int, steps: int) -> None:
        """Say how many are done, and how many steps that took."""
        if not self._lines:
            self._bar.update(self._task, completed=done, steps=steps)
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + _SECONDS
            self._console.print(f"{done} of {self._total} {self._things}, {steps:,} steps")

    def close(self) -> None:
        """Remove the bar."""
        self._bar.stop()
