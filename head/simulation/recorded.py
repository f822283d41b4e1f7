"""A workload as a finished run recorded it: what ``artos simulate --journal RUN`` takes."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from artos.errors import Refused
from artos.plan import POOL
from artos.protocol.unreadable import UNREADABLE
from artos.system.regular_file import contents
from head.records.shape import Shape
from head.simulation.durations import Recorded
from head.simulation.invocations import LEARNER, Course, alone, course_of, with_slots
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
        except (LookupError, TypeError, ValueError, ArithmeticError, msgspec.MsgspecError) as error:
            faults.append(f"{folder}: its records are damaged: {type(error).__name__}: {error}")
    if faults:
        raise Refused(faults)
    return found


def _recorded(folder: Path) -> Workload:
    config, summary, course = _read(folder)
    shape = _shape(folder, config)
    rounds = [each for name, each in course.members.items() if name.startswith(_ACTOR)]
    learned, silent = course.members.get(LEARNER, ()), _silent(shape)
    versions = array("q", (x.version for x in learned if x.drew and x.target not in silent))
    if not versions or not rounds:
        raise Refused([f"{folder}: it made no update: nothing is known of how long one takes"])
    if summary["outcome"] != "done":  # as far as it came
        shape = msgspec.structs.replace(shape, total_steps=0, total_updates=len(versions))
    durations: dict[str, array[float]] = defaultdict(lambda: array("d"))
    leases = config["settings"].get("device") == POOL
    # Who leases a device has waited for it, too; then what it tells itself counts.
    drew = (each for each in learned if each.drew)
    updates_took = with_slots([drew], None) if leases else alone(drew)
    rounds_took = with_slots(rounds, _slots(config, summary))
    for target, seconds in chain(updates_took, rounds_took):
        durations[target].append(seconds)
    return Workload(
        plan=shape.plan(config["algorithm"], _schedule(summary, shape.actors)),
        durations={target: Recorded(each) for target, each in durations.items()},
        starts=_starts(course, summary["wall_seconds"]),
        sync=max(1, round(len(versions) / max(1, versions[-1]))),
        weight=float(config["settings"].get("weight", 1.0)),
        priority=int(config["settings"].get("priority", 0)),
    )


def _silent(shape: Shape) -> frozenset[str]:
    return frozenset(f"{LEARNER}.{method}" for method in shape.non_publishing)


# -- the files of a run --------------------------------------------------------------------------


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Any], Course]:
    try:
        config = _plain(folder / "config.json")
        if "resumed" in config:
            raise Refused([f"{folder}: it was resumed, so its times do not fit together"])
        summary = _plain(folder / "summary.json")
        return config, summary, course_of(journal.read(folder / "journal.jsonl"))
    except FileNotFoundError as error:
        name = Path(error.filename).name
        why = "it has not ended" if name == "summary.json" else "give the folder of a run"
        raise Refused([f"{folder}: there is no {name}: {why}"]) from error
    except UNREADABLE as error:
        raise Refused([f"{folder}: its records are damaged: {error}"]) from error
    except OSError as error:
        raise Refused([f"{folder}: {error.strerror}"]) from error


def _plain(file: Path) -> dict[str, Any]:
    return msgspec.json.decode(contents(file), type=dict[str, Any])


def _shape(folder: Path, config: Mapping[str, Any]) -> Shape:
    if "plan" not in config:
        why = "config.json has no plan, as an earlier version of ARTOS wrote it: run it again"
        raise Refused([f"{folder}: {why}"])
    try:
        return msgspec.convert(config["plan"], Shape)
    except msgspec.ValidationError as error:
        raise Refused([f"{folder}: config.json: {error}"]) from error


def _schedule(summary: Mapping[str, Any], registered: int) -> dict[int, int] | None:
    """The number of actors by update; None if all registered ones took part, always."""
    changes, update = {}, 0
    for updates, actors in summary["actors_by_update"]:
        changes[update] = actors
        update += updates
    return changes if changes and set(changes.values()) != {registered} else None


def _slots(config: Mapping[str, Any], summary: Mapping[str, Any]) -> int | None:
    """How many actors could run at once; None if they were on other nodes."""
    if summary["nodes"]:
        return None
    return int(config["settings"].get("slots") or config["host"]["cpus"])


def _starts(course: Course, wall_seconds: float) -> Starts:
    """What is outside of the journal counts as the start of the process."""
    begun = min((at - seconds for at, seconds in course.starts.values()), default=0.0)
    after = {name: seconds + max(0.0, begun) for name, (_, seconds) in course.starts.items()}
    actors = sorted((name for name in after if name.startswith(_ACTOR)), key=_number)
    return Starts(
        process=max(0.0, wall_seconds - course.ended),
        learner=after.get(LEARNER, 0.0),
        actors=tuple(after[name] for name in actors) or (0.0,),
    )


def _number(name: str) -> int:
    return int(name.removeprefix(_ACTOR))
