"""What is said of a run: shares, the bottleneck, and what to set."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from artos.specs.members import actor_of
from deploy.tracing.events import RESTART
from deploy.tracing.lines import config_of, lines_of
from deploy.why.charging import WAIT
from deploy.why.diagnosis import findings
from deploy.why.evidence import Evidence
from deploy.why.finding import Finding
from deploy.why.history import SAMPLE, History
from deploy.why.signs_of_life import went_on
from deploy.why.stalls import tell_apart
from head.records.progress_log import last_status
from triggers.targets import parsed

BALANCED, EARLY = "none", "too early"
_BALANCED = "nothing that this command knows of would make it more than 5 % faster"
_TOO_EARLY = "no update is over yet"
_MOST_LINES = -1_000_000
"""Newest lines of a journal that are looked at."""
_OF_ACTORS = ("environment", "inference", "sample", "bind")
_ENOUGH_HELD = 0.5
"""Seconds for which CPUs must have been held to say how much they were used."""
_LITTLE = 0.005
"""Shares below this are not printed."""
_NAMED = 8
"""Members that are printed."""


class Waiting(msgspec.Struct, frozen=True):
    """Whom a run still waits for, or waited for at its end, for how long, and what that lacks."""

    member: str
    seconds: float
    lacks: str = ""


class Report(msgspec.Struct, frozen=True):
    """What holds a run up. ``shares`` has those of each member's wall time, by kind."""

    bottleneck: str
    gain: float
    """How many times as fast the run should be with the advice."""
    figure: str
    advice: tuple[str, ...]
    shares: dict[str, dict[str, float]]
    chain: dict[str, float]
    """Shares of the run's time by what decided how long it took: ``learner: learn``."""
    seconds: float
    others: tuple[Finding, ...] = ()
    waiting: Waiting | None = None
    """None if the run is over, or something was over in the last moments."""


def report(folder: Path) -> Report:
    """Look at the run in ``folder``, whether it is live, over, or was killed.

    What is not over yet counts up to now, or to the last sign of life of one that was killed.

    Raises:
        Refused: there is no run, or its records are damaged.
    """
    evidence = _evidence(folder)
    found = findings(evidence) if evidence.updates else []
    nothing = (BALANCED, 1.0, _BALANCED) if evidence.updates else (EARLY, 1.0, _TOO_EARLY)
    best = found[0] if found else Finding(*nothing, ())
    whole = evidence.seconds or 1.0
    ordered = sorted(evidence.chain.items(), key=lambda each: -each[1])
    return Report(
        best.bottleneck, round(best.gain, 2), best.figure, best.advice,
        {m: {k: round(s, 4) for k, s in kinds.items()} for m, kinds in evidence.shares.items()},
        {f"{charge.member}: {charge.kind}": round(s / whole, 4) for charge, s in ordered},
        round(evidence.seconds, 3),
        tuple(msgspec.structs.replace(each, gain=round(each.gain, 2)) for each in found[1:]),
        _waiting(evidence),
    )  # fmt: skip


def _waiting(run: Evidence) -> Waiting | None:
    if (now := run.history.waited_for(run.learner)) is None:
        return None
    lacks = ["to be started again" if kind == RESTART else kind for kind in now.kept]
    seconds = now.end - max(now.called, run.history.ready.get(now.member, 0.0))
    return Waiting(now.member, round(seconds, 3), ", ".join([*lacks, *now.held]))


def _evidence(folder: Path) -> Evidence:
    config = config_of(folder)
    status = last_status(folder / "progress.csv")
    times, usage = (status.times, status.usage) if status else ({}, {})
    split = {kind: s for kind in _OF_ACTORS if (s := times.get(kind, 0.0)) > 0}
    moved = usage.get("bytes_moved", 0.0) / max(1, status.updates if status else 0)
    plan = config.plan
    targets = map(parsed, plan.triggers if plan else ())
    servers = sorted({target.role for target in targets if target.answers})
    history = History(split or {SAMPLE: 1.0}, moved > 0, servers, inline=config.inline)
    history.read(lines_of(folder, _MOST_LINES))
    if (more := went_on(folder, time.time())) is not None:
        history.goes_on(history.ended + more, status.waits if status else {})
    tell_apart(history)
    ranks = [rank for name in history.members if (rank := actor_of(name)) is not None]
    held, used = usage.get("cpu_seconds_held", 0.0), usage.get("cpu_seconds_used", 0.0)
    return Evidence(
        history, config.settings | dict(config.configuration.settings),
        plan.triggers if plan else {}, history.actors or 1 + max(ranks, default=0),
        plan.envs if plan else 1, plan.steps if plan else 1, config.cpus,
        min(1.0, used / held) if held > _ENOUGH_HELD else None, config.algorithm, moved,
    )  # fmt: skip


def words(found: Report) -> Iterator[str]:
    """The report as lines of text."""
    yield f"bottleneck  {found.bottleneck}: {found.figure}"
    if found.advice:
        yield f"to set      {'; or '.join(found.advice)}"
        yield f"gain        about {found.gain:.2g} times as fast"
    for other in found.others:
        yield f"also        {other.bottleneck}: {'; or '.join(other.advice)}, {other.gain:.2g} x"
    if who := found.waiting:
        lacks = f", which waits for {who.lacks}" if who.lacks else ""
        yield f"waiting     for {who.member}, for {who.seconds:,.3g} s{lacks}"
    if not found.shares:
        return
    yield ""
    yield f"what {found.seconds:,.1f} s of it went into, on the chain of what all waited for:"
    for what, share in found.chain.items():
        if share >= _LITTLE:
            yield f"  {share:6.1%}  {what}"
    yield ""
    yield "where each member's time went:"
    for member, kinds in list(found.shares.items())[:_NAMED]:
        parts = sorted(kinds.items(), key=lambda each: (each[0].startswith(WAIT), -each[1]))
        told = ", ".join(f"{kind} {share:.1%}" for kind, share in parts if share >= _LITTLE)
        yield f"  {member}: {told}"
    if (more := len(found.shares) - _NAMED) > 0:
        yield f"  and {more} more, see --json"
