"""What a head knows, as plain data for users: ``artos status --json`` and its relatives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from artos.runtime.logs import piece
from artos.unreadable import UNREADABLE
from head.records.run_folder import LOG, LOGS
from head.roster import Node, Roster
from head.runs import OVER, Run
from head.schedule import Schedule

RUN = LOG.removesuffix(".log")
_MOST_LOG = 100_000


def everything(schedule: Schedule, roster: Roster, now: float) -> dict[str, Any]:
    """Nodes and runs."""
    nodes = [_node(node, schedule, now) for node in roster]
    return {"nodes": nodes, "runs": [one(run, schedule, roster) for run in schedule.runs.values()]}


def line(run: Run, schedule: Schedule, roster: Roster) -> dict[str, Any]:
    """A run in short. ``actors`` are those at work, ``nodes`` where the registered ones live."""
    places = list(run.places.values())
    return {
        "name": run.name,
        "state": run.state,
        "outcome": run.outcome,
        "why": run.why,
        "waits_for": schedule.waits_for(run, [*roster]),
        "folder": run.folder,
        "placement": run.placement,
        "restarts": max(0, run.epoch - 1),
        "actors": run.facts.get("actors", run.up.actors) if run.up else 0,
        "nodes": {node: places.count(node) for node in sorted(set(places))},
    }


def one(run: Run, schedule: Schedule, roster: Roster) -> dict[str, Any]:
    """A run and how it goes."""
    return line(run, schedule, roster) | {"facts": run.facts}


def summary(folder: Path) -> dict[str, Any] | None:
    """What a run that is over has to say; None if it never got to that."""
    try:
        said: dict[str, Any] = msgspec.json.decode((folder / "summary.json").read_bytes())
    except (OSError, *UNREADABLE):
        return None
    return said


def log(run: Run, offset: int) -> dict[str, Any]:
    """What the run process wrote from byte ``offset`` on (see ``logs.piece``)."""
    return log_piece(Path(run.folder) / LOGS / LOG, offset, run.state)


def log_piece(file: Path, offset: int, state: str) -> dict[str, Any]:
    """A piece of a log of a run in that state; ``ended`` once there will be no more of it."""
    data, end = piece(file, offset, _MOST_LOG)
    ended = state in OVER and len(data) < _MOST_LOG
    return {"text": data.decode(errors="replace"), "next": end, "state": state, "ended": ended}


def _node(node: Node, schedule: Schedule, now: float) -> dict[str, Any]:
    actors = schedule.actors_on(node.name) if node.alive else {}
    return {
        "name": node.name,
        "alive": node.alive,
        "slots": node.slots,
        "actors": sum(actors.values()),
        "runs": dict(actors),
        "leaves": node.leaves,
        "cpu": node.load.cpu,
        "memory": node.load.memory,
        "memory_mb": node.memory_mb,
        "faults": node.load.faults,
        "malformed": node.load.malformed,
        "silent_seconds": round(now - node.heard, 1),
    }
