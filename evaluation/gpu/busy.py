"""How busy the driver finds a GPU while something else is measured."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from artos.system import gpus

BUSY = "busy"
_EVERY_SECONDS = 0.2
"""The driver looks at most so often."""


@contextmanager
def watched(number: int = 0) -> Iterator[Callable[[], dict[str, float]]]:
    """Watch ``cuda:number`` in this block; yields what returns the mean in percent, as ``BUSY``.

    Nothing is returned where there is no driver.
    """
    seen, over = list[int](), threading.Event()

    def look() -> None:
        while not over.wait(_EVERY_SECONDS) and (found := gpus.busy_percent(number)) is not None:
            seen.append(found)

    watching = threading.Thread(target=look, name="busy", daemon=True)
    watching.start()
    try:
        yield lambda: {BUSY: statistics.mean(seen)} if seen else {}
    finally:
        over.set()
        watching.join()
