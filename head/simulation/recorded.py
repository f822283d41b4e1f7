"""A workload as a finished run recorded it: what ``artos simulate --journal RUN`` takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from artos import run_config
from artos.errors import CheckpointFault, Refused
from artos.plan import POOL
from artos.protocol.fields import Count, Seconds, Some, Version
from artos.protocol.unreadable import UNREADABLE
from artos.run_config import RunConfig
from head.records import summary_file
from head.records.shape import Shape
from head.records.summary_file import Ending
from head.simulation.durations import Recorded
from head.simulation.invocations import LEARNER, alone, invocations, with_slots
from head.simulation.workload import Starts, Workload
from triggers import journal

_ACTOR = "actor "


def recorded(folders: Iterable[Path]) -> list[Workload]:
    """A workload for each run's folder.

    Raises:
        Refused: lists every fault of every folder.
    """
    found: list[Workload] = []
    faults: list[str] = []
    for folder in folders:
        try:
            found.append(_recorded(folder))
        except Refused as refused:
            faults += refused.faults
        except CheckpointFault as fault:
            faults.append(f"{folder}: {fault.why}")
        except (LookupError, TypeError, ValueError, ArithmeticError, msgspec.MsgspecError) as error:
            faults.append(f"{folder}: its records are damaged: {type(error).__name__}: {error}")
    if faults:
        raise Refused(faults)
    return found


def _recorded(folder: Path) -> Workload:
    config, ending, lines = _read(folder)
    shape = config.plan
    if shape is None:
        why = "config.json has no plan, as an earlier version of ARTOS wrote it: run it again"
        raise Refused([f"{folder}: {why}"])
    members = invocations(lines)
    learned = members.pop(LEARNER, [])
    rounds = [each for name in members if name.startswith(_ACTOR) for each in members[name]]
    updates = [each for each in learned if each.drew and each.target not in _silent(shape)]
    if not updates or not rounds:
        raise Refused([f"{folder}: it made no update: nothing is known of how long one takes"])
    if ending.outcome != "done":  # as far as it came
        shape = msgspec.structs.replace(shape, total_steps=0, total_updates=len(updates))
    elif not _reached(shape, ending):  # or simulating it might never end
        raise Refused([f"{folder}: config.json has limits that it did not reach: it is damaged"])
    durations: dict[str, list[float]] = defaultdict(list)
    leases = config.settings.get("device") == POOL
    # Who leases a device has waited for it, too; then what it tells itself counts.
    drew = [each for each in learned if each.drew]
    updates_took = with_slots(drew, None) if leases else alone(drew)
    for target, seconds in (*updates_took, *with_slots(rounds, _slots(config, ending))):
        durations[target].append(seconds)
    return Workload(
        plan=shape.plan(config.algorithm, _schedule(ending, shape.actors)),
        durations={target: Recorded(tuple(each)) for target, each in durations.items()},
        starts=_starts(lines, ending.wall_seconds),
        sync=max(1, round(len(updates) / max(1, updates[-1].version))),
        weight=float(config.settings.get("weight", 1.0)),
        priority=int(config.settings.get("priority", 0)),
    )


def _reached(shape: Shape, ending: Ending) -> bool:
    limits = ((shape.total_steps, ending.steps), (shape.total_updates, ending.updates))
    return any(0 < limit <= done for limit, done in limits)


def _silent(shape: Shape) -> frozenset[str]:
    return frozenset(f"{LEARNER}.{method}" for method in shape.non_publishing)


# -- the files of a run --------------------------------------------------------------------------


class _Host(msgspec.Struct, frozen=True):
    cpus: Some = 1


class _Config(RunConfig, frozen=True):
    plan: Shape | None = None
    host: _Host = _Host()


class _Line(msgspec.Struct, frozen=True):
    """A line of the journal, as far as it is used; it is checked by this, and used as it is."""

    t: Seconds
    seconds: Seconds | None = None
    version: Version = 0
    firing: Count | None = None
    trigger: str = ""
    done: Count | None = None
    by: str = ""
    ready: str = ""


def _read(folder: Path) -> tuple[_Config, Ending, list[dict[str, Any]]]:
    try:
        _, config = run_config.read(folder, _Config)
        if config.resumed:
            raise Refused([f"{folder}: it was resumed, so its times do not fit together"])
        if (found := summary_file.read(folder)) is None:
            raise Refused([f"{folder}: there is no {summary_file.FILE}: it has not ended"])
        lines = journal.read(folder / "journal.jsonl")
        msgspec.convert(lines, list[_Line])
    except FileNotFoundError as error:
        name = Path(error.filename).name
        raise Refused([f"{folder}: there is no {name}: give the folder of a run"]) from error
    except UNREADABLE as error:
        raise Refused([f"{folder}: its records are damaged: {error}"]) from error
    except OSError as error:
        raise Refused([f"{folder}: {error.strerror}"]) from error
    return config, found[1], lines


def _schedule(ending: Ending, registered: int) -> dict[int, int] | None:
    """The number of actors by update; None if all registered ones took part, always."""
    changes, update = {}, 0
    for updates, actors in ending.actors_by_update:
        changes[update] = actors
        update += updates
    return changes if changes and set(changes.values()) != {registered} else None


def _slots(config: _Config, ending: Ending) -> int | None:
    """How many actors could run at once; None if they were on other nodes."""
    if ending.nodes:
        return None
    return int(config.settings.get("slots") or config.host.cpus)


def _starts(lines: Sequence[Mapping[str, Any]], wall_seconds: float) -> Starts:
    """What is outside of the journal counts as the start of the process."""
    ready = {each["ready"]: each for each in reversed(lines) if each.get("seconds") is not None
             and "ready" in each}  # fmt: skip
    begun = min((each["t"] - each["seconds"] for each in ready.values()), default=0.0)
    after = {name: each["seconds"] + max(0.0, begun) for name, each in ready.items()}
    actors = sorted((name for name in after if name.startswith(_ACTOR)), key=_number)
    return Starts(
        process=max(0.0, wall_seconds - lines[-1]["t"]),
        learner=after.get(LEARNER, 0.0),
        actors=tuple(after[name] for name in actors) or (0.0,),
    )


def _number(name: str) -> int:
    return int(name.removeprefix(_ACTOR))
