"""A mix of workloads that nobody has run yet, in a TOML file: ``artos simulate --mix FILE``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta

from artos.buffer.samplers.patterns import Uniform as UniformDraws
from artos.clock import LONGEST
from artos.errors import Refused
from artos.specs import weight as weights
from artos.specs.actor_count import MOST_ACTORS
from artos.specs.fields import Name
from artos.system.closest import closest
from deploy.simulation.durations import Constant, Duration, Exponential, LogNormal, Uniform
from deploy.simulation.recorded import recorded
from deploy.simulation.toml_tables import tables_of
from deploy.simulation.workload import OWNER, Starts, Workload
from head.records.shape import Shape
from triggers.data_key import DataKeyTrigger
from triggers.primitives import ObjectKeyTrigger
from triggers.replay import ReplayTrigger, RoundTrigger

_UPDATE, _SAMPLE, _ROWS = "learner.update", "actors.sample", ("rows",)

_Some = Annotated[int, Meta(ge=1, le=1_000_000_000)]
_Count = Annotated[int, Meta(ge=0, le=1_000_000_000_000)]
_Seconds = Annotated[float, Meta(ge=0, le=LONGEST)]
_Positive = Annotated[float, Meta(gt=0, le=LONGEST)]


class Drawn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long something takes."""

    mean: _Positive
    """Seconds."""
    distribution: Literal["constant", "exponential", "lognormal", "uniform"] = "lognormal"
    spread: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """A share of the mean: the standard deviation of ``lognormal``, the half width of ``uniform``.

    The others have none.
    """

    def duration(self) -> Duration:
        """The distribution."""
        match self.distribution:
            case "constant":
                return Constant(self.mean)
            case "exponential":
                return Exponential(self.mean)
            case "lognormal":
                return LogNormal(self.mean, self.spread)
        return Uniform(self.mean, self.spread)


class Entry(msgspec.Struct, frozen=True):
    """One ``[[workload]]`` of a mix. Times in seconds.

    A round and an update take seconds, or a table like ``Drawn``. Until its members are started a
    run takes ``process``, then each of them takes ``start``.
    """

    name: Annotated[str, Meta(max_length=100)] = ""
    journal: str = ""
    """The folder of a finished run that recorded all that is not about arrival."""
    pattern: Literal["in turn", "replay"] = "in turn"
    """How updates take rows.

    ``in turn``: every update takes a round of every actor, at most ``max_lag`` versions old.
    ``replay``: updates draw ``batch`` transitions, each ``ratio`` times on average once ``after``
    are there, up to ``slack`` draws off.
    """
    actors: Annotated[int, Meta(ge=1, le=MOST_ACTORS)] = 2
    envs: _Some = 1
    """Environments of an actor."""
    steps: _Some = 128
    """Steps of each environment in a round."""
    round: _Positive | Drawn | None = None
    update: _Positive | Drawn | None = None
    sync: _Some = 1
    """The learner publishes a version every ``sync`` updates."""
    max_lag: _Count = 0
    batch: _Some = 64
    ratio: _Positive = 1.0
    after: _Count = 1_000
    slack: _Seconds | None = None
    total_updates: _Count = 0
    total_steps: _Count = 0
    process: _Seconds = 0.0
    start: _Seconds = 0.0
    runs: Annotated[int, Meta(ge=1, le=100_000)] = 1
    """How many alike runs arrive."""
    arrives: _Seconds = 0.0
    """When the first one does."""
    every: _Seconds = 0.0
    """Seconds from one to the next."""
    weight: Annotated[float, Meta(ge=weights.LEAST, le=weights.MOST)] = 1.0
    priority: Annotated[int, Meta(ge=-1_000, le=1_000)] = 0
    placement: Literal["spread", "pack"] = "spread"
    user: Name = OWNER
    """Whose runs they are; a quota may be theirs."""


_OF_ARRIVAL = ("runs", "arrives", "every", "weight", "priority", "placement", "user")
_WITH_JOURNAL = (*_OF_ARRIVAL, "name", "journal")
_TABLE = "workload"
_REPLAY, _IN_TURN = ("batch", "ratio", "after", "slack"), ("max_lag",)


def mix(path: Path) -> list[Workload]:
    """The workloads of a file.

    Raises:
        Refused: lists everything that is wrong with it.
    """
    faults: list[str] = []
    stored, tables = tables_of(path, faults), list[Mapping[str, Any]]()
    if not faults:
        unknown = stored.keys() - {_TABLE}
        faults += [f"unknown table {name!r}: write [[workload]]" for name in unknown]
        given = stored.get(_TABLE)
        if isinstance(given, list) and given and all(isinstance(each, dict) for each in given):
            tables = given
        else:
            faults.append("it has no [[workload]]")
    found = [_workload(table, path, f"workload {n}", faults) for n, table in enumerate(tables, 1)]
    if faults:
        raise Refused([f"{path}: {fault}" for fault in faults])
    return [each for each in found if each is not None]


def _workload(
    table: Mapping[str, Any], path: Path, where: str, faults: list[str]
) -> Workload | None:
    found: list[str] = []
    hints, fitted = get_type_hints(Entry, include_extras=True), dict[str, Any]()
    for name, value in table.items():
        if name not in hints:
            found.append(f"unknown field {name!r}{closest(name, list(hints))}")
            continue
        try:
            fitted[name] = msgspec.convert(value, hints[name])
        except msgspec.ValidationError as error:
            found.append(f"{name} = {value!r}: {str(error).lower()}")
    entry = Entry(**fitted)
    found += [f"{name}: {why}" for name, why in _misplaced(entry, table)]
    made = None
    if entry.journal:
        try:
            (recording,) = recorded([path.resolve().parent / entry.journal])
        except Refused as refused:
            found += refused.faults
        else:
            plan = recording.plan
            plan = msgspec.structs.replace(plan, name=entry.name or plan.name)
            made = replace(recording, plan=plan, **_arrival(entry))
    elif not found:
        made = _of_fields(entry, where)
    faults += [f"{where}: {fault}" for fault in found]
    return made


def _misplaced(entry: Entry, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Fields that do not go together, or are missing."""
    if entry.journal:
        yield from ((n, "the journal says that") for n in table if n not in _WITH_JOURNAL)
        return
    foreign = _REPLAY if entry.pattern == "in turn" else _IN_TURN
    yield from ((n, f"means nothing with {entry.pattern!r}") for n in table if n in foreign)
    yield from ((n, "say how many seconds one takes") for n in _TAKES if n not in table)
    if not entry.total_updates and not entry.total_steps:
        yield "total_updates", "nothing ends it: say this or total_steps"


_TAKES = ("round", "update")


def _duration(value: float | Drawn | None) -> Duration:
    return value.duration() if isinstance(value, Drawn) else Constant(value or 0.0)


def _of_fields(entry: Entry, where: str) -> Workload:
    if entry.pattern == "in turn":
        update = DataKeyTrigger(_ROWS, size=entry.steps, max_lag=entry.max_lag).encode()
        sample = ObjectKeyTrigger().encode()
    else:
        draws = UniformDraws(entry.batch)
        update = ReplayTrigger(_ROWS, draws, entry.ratio, entry.after, entry.slack).encode()
        sample = RoundTrigger().encode()
    shape = Shape(
        entry.actors, entry.envs, entry.steps, {_UPDATE: update, _SAMPLE: sample},
        total_steps=entry.total_steps, total_updates=entry.total_updates,
    )  # fmt: skip
    return Workload(
        plan=shape.plan(entry.name or where.replace(" ", "-")),
        durations={_SAMPLE: _duration(entry.round), _UPDATE: _duration(entry.update)},
        starts=Starts(entry.process, entry.start, (entry.start,)),
        sync=entry.sync,
        **_arrival(entry),
    )


def _arrival(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in _OF_ARRIVAL}
