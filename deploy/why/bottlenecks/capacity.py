"""What the CPUs of the run's machine have room for."""

from __future__ import annotations

from math import inf

from deploy.why.evidence import Evidence


def most_gain(run: Evidence) -> float:
    """How many times as fast the run is when all of its CPUs are used, as far as that is known."""
    if not run.updates:
        return inf
    used = run.busy(run.updates[0].member) * run.number("learners", 1.0) * run.learner_cpu
    if not run.history.far:  # otherwise actors have CPUs of other machines
        used += sum(run.busy(member) for member in run.rounds) * (run.actors_cpu or 0.0)
    return max(1.0, run.cpus / used) if used else inf
