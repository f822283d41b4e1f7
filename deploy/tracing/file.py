"""Writes a run's trace as a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from artos.errors import Refused
from artos.runs import run_config
from artos.runs.run_config import RunConfig
from artos.specs.fields import Count
from artos.specs.unreadable import UNREADABLE
from deploy.tracing.events import Event, Tracer, within
from head.records.shape import Shape
from triggers import journal

_Seconds = Annotated[float, Meta(ge=0, le=1e9)]
_Claims = tuple[tuple[Count, ...], ...]


class Written(msgspec.Struct, frozen=True):
    """What a trace has: the number of its events, and the seconds from the first to the last."""

    file: str
    events: int
    seconds: float


class _Config(RunConfig, frozen=True):
    plan: Shape | None = None


class _Line(msgspec.Struct, frozen=True):
    """A line of the journal, as far as it is used; it is checked by this, and used as it is."""

    t: _Seconds = 0.0
    seconds: _Seconds = 0.0
    version: int = 0
    firing: Count = 0
    trigger: str = ""
    claims: _Claims = ()
    done: Count = 0
    by: str = ""
    times: dict[str, float] = {}
    waited: float = 0.0
    lag_mean: float = 0.0
    lag_max: float = 0.0
    ready: str = ""
    start: str = ""
    died: str = ""
    set: dict[str, float] = {}


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
    events = within(events_of(folder), since, until)
    with path.open("wb") as file:
        file.write(b'{"displayTimeUnit":"ms","traceEvents":[')
        for event in events:
            file.write((b",\n" if count else b"\n") + encode(event))
            count += 1
            last = max(last, event["ts"] + event.get("dur", 0.0))
        file.write(b"\n]}\n")
    return Written(str(path), count, max(0.0, last / 1e6 - since))


def events_of(folder: Path, line: int = 0) -> Iterator[Event]:
    """The events of the run in ``folder``, from a line of its journal on; -N: the last N lines.

    Raises:
        Refused: there is no run, or its records are damaged.
    """
    try:
        _, config = run_config.read(folder, _Config)
        steps = config.plan.steps if config.plan else 0
        yield from Tracer(steps).of(map(_checked, journal.read(folder / "journal.jsonl", line)))
    except FileNotFoundError as error:
        name = Path(error.filename).name
        raise Refused([f"{folder}: there is no {name}: give the folder of a run"]) from error
    except UNREADABLE as error:
        raise Refused([f"{folder}: its records are damaged: {error}"]) from error


def _checked(line: dict[str, Any]) -> dict[str, Any]:
    msgspec.convert(line, _Line)
    return line
