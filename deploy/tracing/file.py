"""Writes a run's trace as a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from artos.errors import Refused
from artos.system.durable import replacing
from deploy.tracing.counters import Counters
from deploy.tracing.events import Event, Tracer, within
from deploy.tracing.lines import SoundLines, config_of, lines_of


class Written(msgspec.Struct, frozen=True):
    """What a trace has: the number of its events, and the seconds from the first to the last."""

    file: str
    events: int
    seconds: float
    damaged: int = 0
    """Lines of the journal that cannot be understood, and are left out."""


def write(folder: Path, path: Path, since: float, until: float) -> Written:
    """Write the trace of the run in ``folder``, from ``since`` to ``until``, in seconds, to a file.

    The journal is read line by line, also while it is written; damaged lines are left out. An older
    file is replaced once the new one is whole.

    Raises:
        Refused: there is no run, its records cannot be read, or no time is left.
        OSError: the file cannot be written.
    """
    require_time(since, until)
    encode, count, last = msgspec.json.Encoder().encode, 0, 0.0
    plan, lines = config_of(folder).plan, SoundLines(folder)
    traced = Tracer(plan.steps if plan else 0).of(lines)
    events = within(Counters().of(traced), since, until)
    plain = path.is_file() or not path.exists()  # a pipe, or /dev/null, is not to be replaced
    with replacing(path.resolve()) if plain else path.open("wb") as file:
        file.write(b'{"displayTimeUnit":"ms","traceEvents":[')
        for event in events:
            file.write((b",\n" if count else b"\n") + encode(event))
            count += 1
            last = max(last, event["ts"] + event.get("dur", 0.0))
        file.write(b"\n]}\n")
    return Written(str(path), count, max(0.0, last / 1e6 - since), lines.damaged)


def require_time(since: float, until: float) -> None:
    """Check that there is time from ``since`` to ``until``, in seconds.

    Raises:
        Refused: there is none.
    """
    if not 0 <= since < until:
        raise Refused([f"--since {since:g} must come before --until {until:g}, and not below 0"])


def events_of(folder: Path, line: int = 0) -> Iterator[Event]:
    """The events of the run in ``folder``, from a line of its journal on; -N: the last N lines.

    Raises:
        Refused: there is no run, or its records are damaged.
    """
    plan = config_of(folder).plan
    yield from Tracer(plan.steps if plan else 0).of(lines_of(folder, line))
