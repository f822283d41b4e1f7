"""A view that also writes the messages into the run's folder, for ``artos logs RUN``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from artos.protocol.views import Status
from artos.system.append_file import AppendFile
from artos.system.logs import rotate
from deploy.display.view import LiveView
from head.records.run_folder import RunFolder
from head.records.status import Summary


class LoggedView:
    """A ``head.run.session.View`` that passes everything on to ``view`` and logs the messages.

    On a cluster there is no need for it: the log is the output of the run process.
    """

    def __init__(self, view: LiveView, log: Path) -> None:
        self._view, self._log = view, log

    @property
    def due(self) -> bool:
        """Whether ``show`` would draw now."""
        return self._view.due

    def show(self, status: Status) -> None:
        """Show a status. It is not logged: ``progress.csv`` has it."""
        self._view.show(status)

    def note(self, text: str) -> None:
        """Log a message, and show it."""
        self._write(text)
        self._view.note(text)

    def last(self, status: Status) -> None:
        """Show the last status. It is not logged."""
        self._view.last(status)

    def finish(self, summary: Summary, folder: RunFolder) -> None:
        """Log the end of the run, and show it."""
        self._write("\n".join(filter(None, (summary.why, summary.last_line(folder.path)))))
        self._view.finish(summary, folder)

    def _write(self, text: str) -> None:
        with suppress(OSError):  # if the disk is full, the log lacks the text and the run continues
            rotate(self._log)
            with AppendFile(self._log) as log:
                log.append(f"{text}\n".encode())
