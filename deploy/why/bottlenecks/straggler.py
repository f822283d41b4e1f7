"""One actor takes much longer for its rounds than the others, which wait for it."""

from __future__ import annotations

from math import ceil
from statistics import median

from deploy.why.bottlenecks.capacity import at_once, most_gain
from deploy.why.evidence import Evidence, without
from deploy.why.finding import Finding

_SLOW, _SLOW_OF_TWO = 1.5, 2.0
"""How many times as long as others it takes; of two nobody knows which of them is the usual one."""
_LEAST_N = 2
"""With ``n=1`` an actor may have several rounds under way: each makes as many as the others."""


def _slowest(run: Evidence) -> tuple[str, float, float] | None:
    """An actor that is much slower than the others, the seconds of its rounds and of theirs."""
    if len(run.rounds) < 2 or run.replays:  # a learner that draws rows waits for no actor
        return None
    slowest = max(run.rounds, key=lambda member: run.rounds[member])
    others = median(s for member, s in run.rounds.items() if member != slowest)
    seconds = run.rounds[slowest]
    slow = _SLOW if len(run.rounds) > 2 else _SLOW_OF_TWO
    return (slowest, seconds, others) if seconds > slow * others else None


def excess(run: Evidence) -> float:
    """The share of the run's time that a slow actor takes beyond what others would."""
    if (found := _slowest(run)) is None:
        return 0.0
    slowest, seconds, others = found
    return run.sampling_of(slowest) * (1 - others / seconds)


def look(run: Evidence) -> Finding | None:
    """An update that takes the rounds of all but one does not wait for the slow one."""
    if (found := _slowest(run)) is None:
        return None
    slowest, seconds, others = found
    figure = f"a round of {slowest} takes {seconds:.3g} s, one of the others {others:.3g} s"
    n = run.actors - 1
    if n < _LEAST_N:
        log = slowest.replace(" ", "-")
        advice = f"see what slows {slowest} down: artos logs RUN, and artos logs RUN --log {log}"
        return Finding("one straggler", without(excess(run)), figure, (advice,))
    # While it samples, the others make so many versions: its rows will be that old.
    lag = ceil(seconds / others) + 1
    set_lag = run.number("max_lag", 0.0)
    if run.number("n", run.actors) <= n and set_lag >= lag:
        return None  # nobody waits for it any more
    lag = max(lag, int(set_lag))
    together = max(1, at_once(run) - 1)  # the slow one has the other slot
    gain = (n / (others * max(1.0, n / together))) / (run.actors / seconds)
    advice = f"--set n={n} --set max_lag={lag}"
    if not {"n", "max_lag"} <= run.settings.keys():
        advice = f"appo or impala, with {advice}"
    gain = min(gain, without(excess(run)), most_gain(run))
    return Finding("one straggler", gain, figure, (advice,))
