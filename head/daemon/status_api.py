"""What the head knows, as views for users: ``artos status``, ``list`` and ``top``."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from artos.errors import Refused
from artos.protocol.run_state import OVER, QUEUED
from artos.protocol.views import ClusterView, NodeView, RunView
from artos.system.logs import piece
from head.daemon.roster import Node, Roster
from head.daemon.run import Run
from head.daemon.scheduler import Scheduler
from head.records import summary_file
from head.records.run_folder import LOG, LOGS

RUN = LOG.removesuffix(".log")
MOST_OF_A_LOG = 100_000
"""Most bytes of a log in one answer."""


def everything(scheduler: Scheduler, roster: Roster, now: float) -> ClusterView:
    """All nodes and runs, and the quotas whose runs wait or go on."""
    return ClusterView(
        nodes=tuple(_node(node, scheduler, now) for node in roster),
        quotas=scheduler.books.facts(),
        runs=tuple(
            msgspec.structs.replace(line, facts=scheduler.runs[line.name].facts)
            for line in lines(scheduler.runs.values(), scheduler)
        ),
    )


def one(run: Run, scheduler: Scheduler) -> RunView:
    """A run and its newest facts."""
    return msgspec.structs.replace(line(run, scheduler), facts=run.facts)


def line(run: Run, scheduler: Scheduler) -> RunView:
    """A run in short, as if all that is left of its quotas were for it."""
    return lines((run,), scheduler)[0]


def lines(runs: Collection[Run], scheduler: Scheduler) -> tuple[RunView, ...]:
    """Runs in short; together they want no more slots than their quotas allow."""
    books = scheduler.books
    begun = [run for run in runs if run.admitted or run.active]
    queued = [run for run in runs if run.state == QUEUED and not run.admitted]
    ask = [*begun, *(run for run in queued if not books.why_not_begun(run))]
    # One that asks for labels may wait for ever: it takes the rest of a quota from no other.
    ask.sort(key=lambda run: bool(run.where))
    wants = books.usable((run, _actors(run) or run.asks_actors) for run in ask)
    return tuple(_line(run, scheduler, wants.get(run.name, 0)) for run in runs)


def _actors(run: Run) -> int:
    """How many take part now."""
    if run.up is None:
        return 0
    take_part = UNSET if run.facts is None else run.facts.actors
    return run.up.actors if take_part is UNSET else take_part


def _line(run: Run, scheduler: Scheduler, wants: int) -> RunView:
    """``nodes`` counts the registered actors by node."""
    places = list(run.places.values())
    return RunView(
        name=run.name,
        user=run.user,
        account=run.account,
        state=run.state,
        outcome=run.outcome,
        why=run.why,
        waits_for=scheduler.waits.of(run),
        folder=run.folder,
        placement=run.placement,
        where=run.where,
        carrier=run.carrier if run.active else "",
        restarts=run.restarts,
        actors=_actors(run),
        wants=wants,
        registered=run.up.actors if run.up else 0,
        lacks_memory=scheduler.waits.for_memory(run),
        executor_bytes=run.up.executor_bytes if run.up else 0,
        actor_bytes=run.up.actor_bytes if run.up else 0,
        nodes={node: places.count(node) for node in sorted(set(places))},
    )


def _node(node: Node, scheduler: Scheduler, now: float) -> NodeView:
    actors = scheduler.actors_on(node.name) if node.alive else {}
    return NodeView(
        name=node.name,
        alive=node.alive,
        slots=node.slots,
        runs_per_slot=node.runs_per_slot,
        actors=sum(actors.values()),
        runs=dict(actors),
        leaves=node.leaves,
        cpu=node.load.cpu,
        memory=node.load.memory,
        memory_mb=node.memory_mb,
        shm_bytes=node.shm_bytes,
        labels=node.labels,
        devices=node.devices,
        faults=node.load.faults,
        malformed=node.load.malformed,
        silent_seconds=round(now - node.heard, 1),
        seconds_left=round(node.load.seconds_left, 1),
        awaited=node.alive and not node.peer,
        clock_ahead=round(node.clock_ahead, 1),
    )


def summary(run: Run) -> dict[str, Any] | None:
    """The summary of a run that is over; None if its last process could not write one.

    Raises:
        DamagedRecord: it is damaged, or not a file that can be read.
    """
    found = summary_file.read(Path(run.folder))
    # Earlier versions of ARTOS did not say which process wrote it.
    return found[0] if found and found[1].epoch in (0, run.epoch) else None


def log(folder: Path, name: str, offset: int, state: str) -> dict[str, Any]:
    """A piece of a log in the folder of a run in ``state``; ``ended``: no more of it will come.

    ``name`` is, for example, learner, actor-3 (the newest) or w1/actor-3 (the one of node w1); ""
    is the log of the run process.

    Raises:
        Refused: the run has no such log.
    """
    name, logs = name or RUN, folder / LOGS
    files = _files(logs)
    files[RUN] = logs / LOG  # even before the file exists
    of_nodes = [path for path in files.values() if path.stem == name]
    if name in files:
        file = files[name]
    elif of_nodes:
        file = max(of_nodes, key=lambda path: path.stat().st_mtime)
    else:
        there = ", ".join(sorted(files))
        raise Refused([f"run {folder.name} has no log {name!r}; there are: {there}"])
    data, end = piece(file, offset, MOST_OF_A_LOG)
    ended = state in OVER and not piece(file, end, 1)[0]
    return {"text": data.decode(errors="replace"), "next": end, "state": state, "ended": ended}


def has_log(folder: Path, name: str) -> bool:
    """Whether the folder of a run has a log with exactly this name."""
    return name in _files(folder / LOGS)


def _files(logs: Path) -> dict[str, Path]:
    """The logs of processes here, and those of nodes once their executors have closed."""
    found = [*logs.glob("*.log"), *logs.glob("*/*.log")]
    return {path.relative_to(logs).with_suffix("").as_posix(): path for path in found}
