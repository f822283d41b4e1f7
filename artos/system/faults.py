"""What a process survives: a message, a run or a peer may fail, and the process goes on."""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from artos.system.printable import printable

_log = logging.getLogger(__name__)
_MOST_KINDS = 1_000
_FIRST = 50


class Faults:
    """Failures of single pieces of work. Every loop runs these ``contained``.

    Tracebacks are logged: for each kind of fault the first, second, fourth, eighth, ..., so that
    thousands of faults do not fill a disk. ``counted`` is called for each fault.
    """

    def __init__(self, counted: Callable[[], object] = lambda: None) -> None:
        self.count, self._counted = 0, counted
        self._kinds: Counter[tuple[type, str]] = Counter()

    @contextmanager
    def contained(
        self,
        what: str,
        answer: Callable[[str], object] | None = None,
        passing: type[Exception] | tuple[type[Exception], ...] = (),
    ) -> Iterator[None]:
        """Contain the failure of the block: ``answer`` is called with the reason, as a sentence.

        Errors of the types ``passing`` are raised, and so are exceptions that end a process.
        """
        try:
            yield
        except passing:
            raise
        except Exception as error:
            self.add(what, error, answer)

    def add(
        self, what: str, error: Exception, answer: Callable[[str], object] | None = None
    ) -> None:
        """Count a fault, log its traceback, answer. For loops in which microseconds matter."""
        self.count += 1
        self._counted()
        frames = traceback.extract_tb(error.__traceback__)
        kind = (type(error), f"{frames[-1].filename}:{frames[-1].lineno}" if frames else what)
        if len(self._kinds) >= _MOST_KINDS:
            self._kinds.clear()
        self._kinds[kind] += 1
        times = self._kinds[kind]
        if times & (times - 1) == 0:
            _log.error(
                "%s failed (%d times so far); all else continues:", what, times, exc_info=error
            )
        if answer is not None:
            try:
                answer(printable(f"{what} failed: {type(error).__name__}: {error}"))
            except Exception as another:
                self.add("the answer to a fault", another)

    def __repr__(self) -> str:
        return f"<Faults {self.count}>"


class Seldom:
    """Logs warnings that others can cause without end: the first 50, then less and less often."""

    def __init__(self, log: logging.Logger) -> None:
        self._log, self._count = log, 0

    def warning(self, text: str, *arguments: object) -> None:
        """As ``Logger.warning``, unless this warning is to be skipped."""
        self._count += 1
        if self._count <= _FIRST:
            self._log.warning(text, *arguments)
        elif self._count & (self._count - 1) == 0:
            text += " (%d such lines so far, most of them not shown)"
            self._log.warning(text, *arguments, self._count)
