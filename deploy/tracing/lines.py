"""Reads the journal of a run, and what its ``config.json`` says of its shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from artos.errors import Refused
from artos.runs import run_config
from artos.runs.run_config import RunConfig
from artos.specs.fields import Count
from artos.specs.unreadable import UNREADABLE
from head.records.shape import Shape
from triggers import journal

_FALL = 1.0
"""Seconds by which times fall where a run was resumed, unless what was before was shorter."""
_Seconds = Annotated[float, Meta(ge=0, le=1e9)]
_Claims = tuple[Annotated[tuple[Count, ...], Meta(min_length=3, max_length=4)], ...]
_HAS = {
    "firing": ("trigger", "version"),
    "done": ("by",),
    "ready": ("start",),
    "lags": ("version",),
}
"""What lines have that have one of these."""


class Host(msgspec.Struct, frozen=True):
    """The machine of a run's learner."""

    cpus: Annotated[int, Meta(ge=1)] = 1


class Origin(msgspec.Struct, frozen=True):
    """Where and when a run, or its continuation, was asked for."""

    host: str = ""
    time: datetime | None = None


class _Part(msgspec.Struct, frozen=True):
    """A continuation of a run."""

    origin: Origin = Origin()


class Config(RunConfig, frozen=True):
    """What is read of a run's ``config.json``."""

    plan: Shape | None = None
    host: Host = Host()
    origin: Origin = Origin()

    @property
    def begins(self) -> list[float]:
        """When the run, and each continuation, was asked for, in seconds since 1970."""
        parts = [self.origin, *(msgspec.convert(each, _Part).origin for each in self.resumed)]
        return [part.time.timestamp() if part.time else 0.0 for part in parts]


class _Line(msgspec.Struct, frozen=True):
    """A line of the journal, as far as it is used; it is checked by this, and used as it is."""

    t: _Seconds = 0.0
    began: Annotated[float, Meta(ge=0, le=1e11)] = 0.0
    seconds: _Seconds = 0.0
    version: int = 0
    firing: Count = 0
    trigger: str = ""
    after: str = ""
    claims: _Claims = ()
    done: Count = 0
    by: str = ""
    stop: Count = 0
    times: dict[str, _Seconds] = {}
    cpu: _Seconds = 0.0
    slot: _Seconds = 0.0
    waited: _Seconds = 0.0
    restored: _Seconds = 0.0
    rested: tuple[tuple[str, _Seconds, _Seconds], ...] = ()
    blocked: _Seconds = 0.0
    queued: _Seconds = 0.0
    quota: str = ""
    lag_mean: float = 0.0
    lag_max: float = 0.0
    lags: tuple[Annotated[tuple[float, ...], Meta(min_length=2)], ...] = ()
    ready: str = ""
    start: str = ""
    died: str = ""
    set: dict[str, float] = {}


def config_of(folder: Path) -> Config:
    """The configuration of the run in ``folder``.

    Raises:
        Refused: there is no run, or its configuration is damaged.
    """
    with _of_a_run(folder):
        return run_config.read(folder, Config)[1]


def lines_of(folder: Path, since: int = 0) -> Iterator[dict[str, Any]]:
    """The lines of its journal one by one, also while it is written; see ``journal.read``.

    Raises:
        Refused: there is no run, or its journal is damaged.
    """
    with _of_a_run(folder):
        for line in journal.read(folder / "journal.jsonl", since):
            yield checked(line)


def checked(line: dict[str, Any]) -> dict[str, Any]:
    """The line itself.

    Raises:
        msgspec.ValidationError: what it says cannot be meant.
    """
    msgspec.convert(line, _Line)
    for kind, names in _HAS.items():
        if kind in line and not line.keys() >= {*names}:
            raise msgspec.ValidationError(f"a line with {kind} lacks {' or '.join(names)}")
    return line


def goes_on_anew(line: Mapping[str, Any], last: float) -> bool:
    """Whether a run was resumed with this line; ``last`` is the newest time before, 0 if none.

    Its times, and numbers of firings, begin again. In journals of earlier versions no line says so.
    """
    return last > 0 and ("began" in line or line.get("t", last) < last - _FALL)


@contextmanager
def _of_a_run(folder: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        name = Path(error.filename).name
        raise Refused([f"{folder}: there is no {name}: give the folder of a run"]) from error
    except UNREADABLE as error:
        raise Refused([f"{folder}: its records are damaged: {error}"]) from error
