"""What is read of a run's ``summary.json``, which ``Summary`` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from artos.protocol.usage import Usage
from artos.specs.fields import Count, Seconds, Small
from artos.system.regular_file import contents
from head.records.reading import reading

FILE = "summary.json"


class Ending(msgspec.Struct, frozen=True):
    """How a run ended, and with what totals; the fields are those of ``Summary``."""

    outcome: str
    why: str = ""
    steps: Count = 0
    updates: Count = 0
    seconds: Seconds = 0.0
    mean_return_100: float | None = None
    wall_seconds: Seconds = 0.0
    nodes: tuple[str, ...] = ()
    actors_by_update: tuple[tuple[Count, Small], ...] = ()
    usage: Usage = Usage()


def read(run: Path) -> tuple[dict[str, Any], Ending] | None:
    """All of the summary in a run's folder, and what is needed of it; None: there is none.

    Raises:
        DamagedRecord: it is damaged, or cannot be read.
    """
    path = run / FILE
    with reading(path):
        try:
            text = contents(path)
        except FileNotFoundError:
            return None
        plain = msgspec.json.decode(text, type=dict[str, Any])
        return plain, msgspec.json.decode(text, type=Ending)
