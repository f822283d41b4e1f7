"""Reads the journal of a run, and what its ``config.json`` says of its shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, field

from artos.errors import Refused
from artos.runs import run_config
from artos.runs.run_config import RunConfig
from artos.specs.fields import MOST, Count, Number, Version, check_plain
from artos.specs.members import actor_of
from artos.specs.unreadable import UNREADABLE
from head.records.shape import Shape
from triggers import journal
from triggers.journal_index import JournalIndex

_FALL = 1.0
"""Seconds by which times fall where a run was resumed, unless what was before was shorter."""
_Seconds = Annotated[float, Meta(ge=0, le=1e9)]
_Size = Annotated[float, Meta(ge=0, le=MOST)]
_Claims = tuple[Annotated[tuple[Count, ...], Meta(min_length=3, max_length=4)], ...]
_DEEPEST = 100
"""Levels of triggers that are made of others, times two."""
_HAS = {
    "firing": ("trigger", "version"),
    "done": ("by",),
    "again": ("by",),
    "ready": ("start",),
    "lags": ("version",),
}
"""What lines have that have one of these."""
FOR_REPLAY = ("asked", "rows", "large", "incarnation")
"""What lines of members have for ``artos replay`` alone: it tells people nothing."""
_SAID = frozenset(("times", "nothing"))
"""Where a learner's time went, or why it did nothing: one is in each answer of its own."""


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
    host: Host | None = None


class Config(RunConfig, frozen=True):
    """What is read of a run's ``config.json``."""

    plan: Shape | None = None
    host: Host = Host()
    origin: Origin = Origin()

    def __post_init__(self) -> None:
        RunConfig.__post_init__(self)
        if self.plan:
            check_plain(self.plan.triggers, _DEEPEST)
            for target, spec in self.plan.triggers.items():
                if not isinstance(spec.get("fields", {}), dict):
                    raise TypeError(f"Expected `object` as fields of the trigger of {target}")

    @property
    def begins(self) -> list[float]:
        """When the run, and each continuation, was asked for, in seconds since 1970."""
        parts = [self.origin, *(each.origin for each in self._parts)]
        return [part.time.timestamp() if part.time else 0.0 for part in parts]

    @property
    def cpus(self) -> int:
        """Those of the machine that its learner was on last."""
        return [self.host, *(each.host or self.host for each in self._parts)][-1].cpus

    @property
    def _parts(self) -> list[_Part]:
        return msgspec.convert(self.resumed, list[_Part])


class _Line(msgspec.Struct, frozen=True):
    """A line of the journal, whatever it is of; it is checked by this, and used as it is."""

    line: Count = 0
    t: _Seconds = 0.0
    began: Annotated[float, Meta(ge=0, le=1e11)] = 0.0
    seconds: _Seconds = 0.0
    version: Version = 0
    configuration: Count = 0
    firing: Count = 0
    trigger: str = ""
    after: str = ""
    claims: _Claims = ()
    dropped: _Claims = ()
    actors: Count | tuple[Count, ...] = 0
    before: Count = 0
    done: Count = 0
    by: str = ""
    stop: Count = 0
    recovered: bool = False
    again: Count = 0
    asked: tuple[_Size, ...] = ()
    rows: Count = 0
    large: str = ""
    kept: Count = 0
    ended: Count = 0
    beside: dict[str, Version] = {}
    times: dict[str, _Seconds] = {}
    cpu: _Seconds = 0.0
    slot: _Seconds = 0.0
    waited: _Seconds = 0.0
    restored: _Seconds = 0.0
    rested: tuple[tuple[str, _Seconds, _Seconds], ...] = ()
    blocked: _Seconds = 0.0
    queued: _Seconds = 0.0
    quota: str = ""
    lag_mean: _Size = 0.0
    lag_max: _Size = 0.0
    lags: tuple[Annotated[tuple[_Size, ...], Meta(min_length=2)], ...] = ()
    ready: str = ""
    start: str = ""
    device: str = ""
    incarnation: Count = 0
    died: str = ""
    step: Number = 0
    why: str = ""
    lost: Count = 0
    actor: Count = 0
    granted: Count = 0
    base: Count | str = field(name="from", default=0)
    set: dict[str, float] = {}


_KNOWN = frozenset(_Line.__struct_encode_fields__)
_CHECKED = _KNOWN - {"set"}
"""What of a line can be written as JSON again if it is of these types."""


class _NotOurs(Refused):
    def __init__(self, folder: Path) -> None:
        super().__init__([f"{folder}: no line of its journal is one that ARTOS writes: name a run"])


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
        Refused: there is no run, or its journal is damaged, or none that ARTOS wrote.
    """
    is_ours = None if since <= 0 else True
    with _of_a_run(folder):
        for line in journal.read(folder / "journal.jsonl", since):
            is_ours = is_ours or not _KNOWN.isdisjoint(line)
            yield checked(line)
    if is_ours is False:
        raise _NotOurs(folder)


def checked(line: dict[str, Any]) -> dict[str, Any]:
    """The line itself.

    Raises:
        msgspec.ValidationError: what it says cannot be meant.
    """
    try:
        msgspec.convert(line, _Line)
        if other := line.keys() - _CHECKED:
            check_plain({name: line[name] for name in other})
    except (ValueError, OverflowError) as error:  # a number of hundreds of digits, say
        raise msgspec.ValidationError(str(error)) from error
    for kind, names in _HAS.items():
        if kind in line and not line.keys() >= {*names}:
            raise msgspec.ValidationError(f"a line with {kind} lacks {' or '.join(names)}")
    return line


def goes_on_anew(line: Mapping[str, Any], last: float) -> bool:
    """Whether a run was resumed with this line; ``last`` is the newest time before, 0 if none.

    Its times, and numbers of firings, begin again. In journals of earlier versions no line says so.
    """
    return last > 0 and ("began" in line or line.get("t", last) < last - _FALL)


def unanswered(line: Mapping[str, Any]) -> bool:
    """Whether a member was done, but died before it could say how long it took."""
    if line.get("recovered"):
        return True
    return not (line.get("seconds") or actor_of(line["by"]) is not None or _SAID & line.keys())


def is_replica(member: str) -> bool:
    """Whether this is a replica of a learner for which the first one answers, as ``learner 1``."""
    return actor_of(member) is None and member.rpartition(" ")[2].isdecimal() and " " in member


def understood(line: dict[str, Any] | None) -> dict[str, Any] | None:
    """The line itself; None where it cannot be meant."""
    try:
        return checked(line) if line else None
    except msgspec.ValidationError:
        return None


class SoundLines:
    """The lines of a run's journal that can be understood; ``damaged`` counts the others.

    Whoever iterates gets those that there are by now, and once more only what is new since.

    Raises:
        Refused: there is no run, or its journal cannot be read, or is none that ARTOS wrote.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._at, self._are_ours = folder, 0, False
        self.damaged = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with _of_a_run(self._folder), JournalIndex(self._folder / "journal.jsonl") as index:
            for address, content in index.lines(self._at):
                self._at = address + 1
                if (line := understood(content)) is None:
                    self.damaged += 1
                else:
                    self._are_ours = self._are_ours or not _KNOWN.isdisjoint(line)
                    yield line
        if self._at and not self._are_ours:
            raise _NotOurs(self._folder)


@contextmanager
def _of_a_run(folder: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        name = Path(error.filename).name
        raise Refused([f"{folder}: there is no {name}: give the folder of a run"]) from error
    except UNREADABLE as error:
        raise Refused([f"{folder}: its records are damaged: {error}"]) from error
