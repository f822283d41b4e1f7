"""A workload as a finished run recorded it: what ``artos simulate --journal RUN`` takes."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from artos.errors import Refused
from artos.protocol.unreadable import UNREADABLE
from head.records.shape import Shape
from head.simulation.durations import Recorded
from head.simulation.workload import Starts, Workload
from triggers import journal


class Answered(NamedTuple):
    """An invocation: its target, when it could begin at the earliest, when it was answered."""

    target: str
    asked: float
    answered: float
    seconds: float


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
    if faults:
        raise Refused(faults)
    return found


def _recorded(folder: Path) -> Workload:
    config, summary, lines = _read(folder)
    shape = _shape(folder, config)
    made, learned, sampled = _Invocations(lines).sorted(frozenset(shape.non_publishing))
    if not learned or not sampled:
        raise Refused([f"{folder}: it made no update: nothing is known of how long one takes"])
    if summary["outcome"] != "done":  # as far as it came
        shape = msgspec.structs.replace(shape, total_steps=0, total_updates=max(1, made.updates))
    durations: dict[str, list[float]] = defaultdict(list)
    for target, seconds in (*_alone(learned), *_by_turns(sampled, _slots(config, summary))):
        durations[target].append(seconds)
    return Workload(
        plan=shape.plan(config["algorithm"], _schedule(summary, shape.actors)),
        durations={target: Recorded(tuple(each)) for target, each in durations.items()},
        starts=_starts(lines, summary["wall_seconds"]),
        sync=max(1, round(made.updates / max(1, made.versions))),
    )


# -- the files of a run --------------------------------------------------------------------------


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    try:
        config = _plain(folder / "config.json")
        if "resumed" in config:
            raise Refused([f"{folder}: it was resumed, so its times do not fit together"])
        return config, _plain(folder / "summary.json"), journal.read(folder / "journal.jsonl")
    except FileNotFoundError as error:
        name = Path(error.filename).name
        why = "it has not ended" if name == "summary.json" else "give the folder of a run"
        raise Refused([f"{folder}: there is no {name}: {why}"]) from error
    except UNREADABLE as error:
        raise Refused([f"{folder}: its records are damaged: {error}"]) from error
    except OSError as error:
        raise Refused([f"{folder}: {error.strerror}"]) from error


def _plain(file: Path) -> dict[str, Any]:
    return msgspec.json.decode(file.read_bytes(), type=dict[str, Any])


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


def _starts(lines: Sequence[Mapping[str, Any]], wall_seconds: float) -> Starts:
    """What is outside of the journal counts as the start of the process."""
    ready = {each["ready"]: each for each in reversed(lines) if each.get("seconds") is not None
             and "ready" in each}  # fmt: skip
    begun = min((each["t"] - each["seconds"] for each in ready.values()), default=0.0)
    after = {name: each["seconds"] + max(0.0, begun) for name, each in ready.items()}
    actors = sorted((name for name in after if name.startswith("actor ")), key=_number)
    return Starts(
        process=max(0.0, wall_seconds - lines[-1]["t"]),
        learner=after.get("learner", 0.0),
        actors=tuple(after[name] for name in actors) or (0.0,),
    )


def _number(name: str) -> int:
    return int(name.removeprefix("actor "))


# -- its invocations -----------------------------------------------------------------------------


class _Made(NamedTuple):
    updates: int
    versions: int


class _Invocations:
    """Finds out when each invocation of a journal could begin, and when it was answered."""

    def __init__(self, lines: Iterable[Mapping[str, Any]]) -> None:
        self._fired: dict[int, tuple[str, float]] = {}
        self._seen: dict[int, float] = {}  # version → when triggers knew of it
        self._free: dict[str, float] = {}  # member → when it was last done
        self._answers: list[tuple[str, Answered, int]] = []
        for line in lines:
            if "firing" in line:
                self._fired[line["firing"]] = line["trigger"], line["t"]
                self._seen.setdefault(line["version"], line["t"])
            elif "ready" in line:
                self._free.setdefault(line["ready"], line["t"])
            elif "done" in line and "seconds" in line and "nothing" not in line:
                self._done(line)

    def _done(self, line: Mapping[str, Any]) -> None:
        member, target, asked = line["by"], *self._fired[line["done"]]
        asked = max(asked, self._free.get(member, 0.0))
        answered = line["t"]
        if member == "learner":  # its weights may be known before its answer is read
            seen = self._seen.get(line["version"], answered)
            answered = seen if asked < seen < answered else answered
        self._free[member] = answered
        found = Answered(target, asked, answered, line["seconds"])
        self._answers.append((member, found, line.get("version", 0)))

    def sorted(self, silent: frozenset[str]) -> tuple[_Made, list[Answered], list[Answered]]:
        """How much the learner made, its invocations, and those of the actors."""
        learned = [(a, version) for member, a, version in self._answers if member == "learner"]
        sampled = [a for member, a, _ in self._answers if member.startswith("actor ")]
        updates = sum(a.target.partition(".")[2] not in silent for a, _ in learned)
        made = _Made(updates, max((version for _, version in learned), default=0))
        return made, [a for a, _ in learned], sampled


def _alone(invocations: Iterable[Answered]) -> Iterable[tuple[str, float]]:
    """How long a member took that waits for nothing else; longer than it says itself by far
    if it had to be woken first."""
    for each in invocations:
        yield each.target, max(each.seconds, each.answered - each.asked)


def _by_turns(invocations: Sequence[Answered], slots: int | None) -> Iterable[tuple[str, float]]:
    """How long actors held one of the ``slots`` for an invocation.

    Of what begins as the j-th at least j - ``slots`` are over before that, so it has waited until
    then; what it took from there on, it took with its slot: also to be woken.
    """
    over: list[float] = []  # answers of those that have begun, to come
    for each in sorted(invocations, key=lambda one: one.answered - one.seconds):
        began = each.asked
        if slots is not None and len(over) >= slots:
            began = max(began, heapq.heappop(over))
        heapq.heappush(over, each.answered)
        yield (
            each.target,
            each.seconds if slots is None else max(each.seconds, each.answered - began),
        )
