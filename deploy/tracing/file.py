"""Writes a run's trace as a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from artos.errors import Refused
from artos.runs import run_config
from artos.specs.unreadable import UNREADABLE
from deploy.tracing.events import Event, Tracer, within
from deploy.tracing.lines import ShownConfig, checked
from triggers import journal


class Written(msgspec.Struct, frozen=True):
    """What a trace has: the number of its events, and the seconds from the first to the last."""

    file: str
    events: int
    seconds: float


def write(folder: Path, path: Path, since: float, until: float) -> Written:
    """Write the trace of the run in ``folder``, from ``since`` to ``until``, in seconds, to a file.

    The journal is read line by line, also while it is written.

    Raises:
        Refused: there is no run, its records are damaged, or no time is left.
        OSError: the file cannot be written.
    """
    if not 0 <= since < until:
        raise Refused([f"--since {since:g} must come before --until {until:g}, and not below 0"])
    encode, count, last = msgspec.json.Encoder().encode, 0, 0.0
    events = within(_events(folder), since, until)
    with path.open("wb") as file:
        file.write(b'{"displayTimeUnit":"ms","traceEvents":[')
        for event in events:
            file.write((b",\n" if count else b"\n") + encode(event))
            count += 1
            last = max(last, event["ts"] + event.get("dur", 0.0))
        file.write(b"\n]}\n")
    return Written(str(path), count, max(0.0, last / 1e6 - since))


def _events(folder: Path) -> Iterator[Event]:
    try:
        _, config = run_config.read(folder, ShownConfig)
        steps = config.plan.steps if config.plan else 0
        yield from Tracer(steps).of(map(checked, journal.read(folder / "journal.jsonl")))
    except FileNotFoundError as error:
        name = Path(error.filename).name
        raise Refused([f"{folder}: there is no {name}: give the folder of a run"]) from error
    except UNREADABLE as error:
        raise Refused([f"{folder}: its records are damaged: {error}"]) from error
