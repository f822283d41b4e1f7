"""Where a process of ours sends the messages of our modules; its entry point decides, once.

Every module logs to ``logging.getLogger(__name__)``. User code may run in the same process, so the
root logger, which is the user's, is never touched, only the loggers of our packages.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from artos.system.printable import printable

PACKAGES = ("artos", "triggers", "head", "workers", "deploy")


class LineHandler(logging.Handler):
    """Gives each message, with its traceback if it has one, to ``write``.

    Where nothing can be written the message is lost, and the process goes on.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        """Write a message, or lose it."""
        try:
            text = self.format(record)
            with suppress(OSError, ValueError):  # full, closed, or a pipe without a reader
                self._write(text)
        except Exception:
            self.handleError(record)


@contextmanager
def logging_to(write: Callable[[str], object]) -> Iterator[None]:
    """Send what our modules log to ``write``, and nowhere else, while this block lasts."""
    handler = LineHandler(write)
    with ExitStack() as before:
        for logger in map(logging.getLogger, PACKAGES):
            before.callback(_set, logger, logger.handlers, logger.level, logger.propagate)
            _set(logger, [handler], logging.INFO, False)
        before.callback(handler.close)
        yield


def _set(
    logger: logging.Logger, handlers: list[logging.Handler], level: int, propagate: bool
) -> None:
    logger.handlers, logger.propagate = handlers, propagate
    logger.setLevel(level)


def to_stderr(text: str) -> None:
    """Write a message, which may quote others, to a terminal or into a log."""
    print(printable(text), file=sys.stderr, flush=True)  # noqa: T201


def keep_enabled() -> None:
    """Turn our loggers on again: a user's ``logging.config`` turns off loggers it does not name."""
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if name.partition(".")[0] in PACKAGES and isinstance(logger, logging.Logger):
            logger.disabled = False
