"""Actors sample for too long: their environments are slow."""

from __future__ import annotations

from deploy.why.bottlenecks.straggler import excess
from deploy.why.evidence import Evidence
from deploy.why.finding import Finding
from workers.host.shared_slots import MOST_SHARES

_MOST, _ENOUGH = 32, 0.9
"""Most actors that are advised, and the share of what they would gain that fewer must gain."""


def look(run: Evidence) -> Finding | None:
    """More actors step environments side by side, as many as there are CPUs.

    There may be more if they only wait, and the policy is evaluated elsewhere: then several share
    a CPU.
    """
    sampling = run.sampling - excess(run)
    most = _most(run)
    if most <= run.actors or sampling <= 0:
        return None
    best = _gain(run, sampling, most)
    numbers = [*range(run.actors + 1, most), most]
    actors = next(n for n in numbers if _gain(run, sampling, n) - 1 >= _ENOUGH * (best - 1))
    central = " --set inference=central" if actors > run.cpus else ""
    used = "" if run.actors_cpu is None else f", of which they compute {run.actors_cpu:.0%}"
    rows = run.envs * run.steps
    figure = (
        f"{sampling:.0%} of the time actors step environments{used}: "
        f"a round of {rows:,} steps takes {run.round:.3g} s, an update {run.update:.3g} s"
    )
    gain = _gain(run, sampling, actors)
    more = run.to_set("actors", actors).replace("--set actors=", "--actors ")
    advice = f"{more}{central}"
    return Finding("slow environment", gain, figure, (advice,), costs=True)


def _most(run: Evidence) -> int:
    if run.actors_compute or "inference" not in run.settings:
        return run.cpus
    waits = int(run.cpus / max(0.01, run.actors_cpu or 0.0))
    return min(_MOST, MOST_SHARES * run.cpus, waits)


def _gain(run: Evidence, sampling: float, actors: int) -> float:
    """More actors make more rows at a time; learning from each row takes as long as before."""
    return 1 / (sampling * run.actors / actors + 1 - sampling)
