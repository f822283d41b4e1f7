"""A workload as a finished run recorded it: what ``artos simulate --journal RUN`` takes."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import msgspec

from artos.errors import CheckpointFault, Refused
from artos.runs import run_config
from artos.runs.run_config import RunConfig
from artos.specs.devices import POOL
from artos.specs.fields import Count, Seconds, Some, Version
from artos.specs.members import actor_of, in_order
from artos.specs.unreadable import UNREADABLE
from deploy.simulation.durations import Recorded
from deploy.simulation.invocations import LEARNER, Course, alone, course_of, with_slots
from deploy.simulation.workload import Starts, Workload
from head.records import summary_file
from head.records.shape import Shape
from head.records.summary_file import Ending
from triggers import journal


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
    config, ending, course = _read(folder)
    shape = config.plan
    if shape is None:
        why = "config.json has no plan, as an earlier version of ARTOS wrote it: run it again"
        raise Refused([f"{folder}: {why}"])
    if not shape.actors:
        raise Refused([f"{folder}: it has no actors, and slots are what runs share: leave it out"])
    rounds = [each for name, each in course.members.items() if actor_of(name) is not None]
    learned = course.members.get(LEARNER, ())
    silent = {f"{LEARNER}.{method}" for method in shape.non_publishing}
    versions = array("q", (x.version for x in learned if x.drew and x.target not in silent))
    if not versions or not rounds:
        raise Refused([f"{folder}: it made no update: nothing is known of how long one takes"])
    if ending.outcome != "done":  # as far as it came
        shape = msgspec.structs.replace(shape, total_steps=0, total_updates=len(versions))
    elif not _reached(shape, ending):  # or simulating it might never end
        raise Refused([f"{folder}: config.json has limits that it did not reach: it is damaged"])
    durations: dict[str, array[float]] = defaultdict(lambda: array("d"))
    leases = config.settings.get("device") == POOL
    # Who leases a device has waited for it, too; then what it tells itself counts.
    drew = (each for each in learned if each.drew)
    updates_took = with_slots([drew], None) if leases else alone(drew)
    # How many actors could run at once: unknown if they were on other nodes.
    slots = None if ending.nodes else int(config.settings.get("slots") or config.host.cpus)
    rounds_took = with_slots(rounds, slots)
    for target, seconds in chain(updates_took, rounds_took):
        durations[target].append(seconds)
    changes, update = dict[int, int](), 0
    for updates, actors in ending.actors_by_update:
        changes[update] = actors
        update += updates
    always_all = set(changes.values()) <= {shape.actors}
    return Workload(
        plan=shape.plan(config.algorithm, None if always_all else changes),
        durations={target: Recorded(each) for target, each in durations.items()},
        starts=_starts(course, ending.wall_seconds),
        sync=max(1, round(len(versions) / max(1, versions[-1]))),
        weight=float(config.settings.get("weight", 1.0)),
        priority=int(config.settings.get("priority", 0)),
    )


def _reached(shape: Shape, ending: Ending) -> bool:
    limits = ((shape.total_steps, ending.steps), (shape.total_updates, ending.updates))
    return any(0 < limit <= done for limit, done in limits)


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


def _read(folder: Path) -> tuple[_Config, Ending, Course]:
    try:
        _, config = run_config.read(folder, _Config)
        if config.resumed:
            raise Refused([f"{folder}: it was resumed, so its times do not fit together"])
        if (found := summary_file.read(folder)) is None:
            raise Refused([f"{folder}: there is no {summary_file.FILE}: it has not ended"])
        lines = journal.read(folder / "journal.jsonl")
        # Any that does not fit raises; a struct is always true.
        course = course_of(line for line in lines if msgspec.convert(line, _Line))
    except FileNotFoundError as error:
        name = Path(error.filename).name
        raise Refused([f"{folder}: there is no {name}: give the folder of a run"]) from error
    except UNREADABLE as error:
        raise Refused([f"{folder}: its records are damaged: {error}"]) from error
    except OSError as error:
        raise Refused([f"{folder}: {error.strerror}"]) from error
    return config, found[1], course


def _starts(course: Course, wall_seconds: float) -> Starts:
    """What is outside of the journal counts as the start of the process."""
    begun = min((at - seconds for at, seconds in course.starts.values()), default=0.0)
    after = {name: seconds + max(0.0, begun) for name, (_, seconds) in course.starts.items()}
    actors = in_order(name for name in after if actor_of(name) is not None)
    return Starts(
        process=max(0.0, wall_seconds - course.ended),
        learner=after.get(LEARNER, 0.0),
        actors=tuple(after[name] for name in actors) or (0.0,),
    )
