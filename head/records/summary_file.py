"""What is read of a run's ``summary.json``, which ``Summary`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from artos.errors import Refused
from artos.protocol.usage import Usage
from artos.protocol.views import LagCounts
from artos.specs.fields import Count, Seconds, Small
from artos.specs.settings import convert
from artos.system.regular_file import contents
from head.records.reading import reading

FILE = "summary.json"


class Best(msgspec.Struct, frozen=True):
    """Of the evaluation of the best version."""

    mean_return: float | None = None


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
    ended_by: str = ""
    epoch: Count = 0
    lag_histogram: LagCounts = {}
    best: Best | None = None


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


def spent(run: Path, limits: Mapping[str, object]) -> list[str]:
    """Why a run that is over has nothing more to do with these limits, by setting; [] if it has.

    Limits that are not given are as they were. Of a damaged summary nothing is known.
    """
    with suppress(Refused):
        _, ending = read(run) or ({}, Ending(""))
        made = {"total_steps": ending.steps, "total_updates": ending.updates}
        if ending.outcome != "done" or ending.ended_by not in made:
            return []
        for name, count in made.items():
            limit = limits.get(name, count if name == ending.ended_by else 0)
            if 0 < convert(name, limit, int) <= count:
                flag, what = name.replace("_", "-"), name.removeprefix("total_")
                more = f"give it more, as with --{flag} {2 * count}"
                return [f"{run.name} is done, after {count:,} {what}: {more}"]
    return []
