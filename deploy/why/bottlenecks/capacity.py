"""What the CPUs of the run's machine have room for."""

from __future__ import annotations

from math import inf

from deploy.why.evidence import Evidence
from workers.host.shared_slots import MOST_SHARES


def at_once(run: Evidence) -> int:
    """How many actors may sample at the same time."""
    if run.history.far:
        return run.actors
    shares = MOST_SHARES if run.settings.get("inference") == "central" else 1
    slots = run.number("slots", 0.0) or run.cpus * shares
    return min(int(slots), run.actors)


def most_gain(run: Evidence) -> float:
    """How many times as fast the run is when all of its CPUs are used, as far as that is known."""
    if not run.updates:
        return inf
    used = run.busy(run.updates[0].member) * run.number("learners", 1.0) * run.learner_cpu
    if not run.history.far:  # otherwise actors have CPUs of other machines
        used += sum(run.busy(member) for member in run.rounds) * (run.actors_cpu or 0.0)
    return max(1.0, run.cpus / used) if used else inf
