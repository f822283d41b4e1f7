"""``artos why`` on planted bottlenecks: is each named, and what does its advice gain?

Each is planted in a run of a few seconds. What is possible is the best run of a sweep, in which the
advice takes part. Waits are by the clock where they can be, so that few figures depend on how busy
the machine is.
"""

from __future__ import annotations

from dataclasses import dataclass

from evaluation.core.benchmark import CLUSTER, LAB, MEMBERS, POOL, Benchmark
from evaluation.core.report import Results
from evaluation.core.runner import Answer, Contestant, Say, alternate
from evaluation.why.cases import CASES, Case, settings_of
from evaluation.why.runs import Outcome, outcome

NAMED = "named, as planted"
POSSIBLE = "share of the possible gain that the advice has"
GAIN = "gain by the advice"
FORESEEN = "gain that was foreseen"
_UNITS = {NAMED: "times", GAIN: "times as fast", FORESEEN: "times as fast", POSSIBLE: "%"}
_GOAL = 80.0
_QUICK = 2


@dataclass(frozen=True)
class Judged:
    """What became of a case; rates are environment steps a second."""

    named: str
    advice: str
    foreseen: float
    planted: float
    advised: float
    best: float

    @property
    def gain(self) -> float:
        """How many times as fast it is with the advice."""
        return self.advised / self.planted

    @property
    def possible(self) -> float:
        """The share of the best gain, in percent."""
        room = max(self.best, self.advised) - self.planted
        return 100.0 * ((self.advised - self.planted) / room) if room > 0 else 0.0


def judged(case: Case, say: Say) -> Judged:
    """Plant it, follow the advice, and try what else there is."""
    planted = outcome(case, {})
    said = planted.said
    say(f"why: {case.bottleneck}: {planted.rate:,.1f} steps/s: {said.bottleneck}: {said.figure}")
    found = [said.bottleneck == each.bottleneck for each in CASES]
    advice = settings_of(said.advice[0]) if any(found) else {}
    tried: dict[str, Outcome] = {}
    for settings in (advice, *case.sweep):
        if (name := ", ".join(f"{k}={v}" for k, v in settings.items())) not in tried:
            tried[name] = outcome(case, settings)
            say(f"why: {case.bottleneck}, {name or 'as it was'}: {tried[name].rate:,.1f} steps/s")
    rates = [each.rate for each in tried.values()]
    return Judged(
        said.bottleneck, "; ".join(said.advice), said.gain, planted.rate, rates[0], max(rates)
    )


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Judge all cases; ``quick`` only shows that the first of them run."""
    results = Results("why", repeats)
    chosen = CASES[: _QUICK if quick else None]
    alternate(results, [_contestant(case, say) for case in chosen], repeats, say)
    for case in chosen:
        results.require(f"{NAMED}: {case.bottleneck}", 1.0, "at least", every=True)
        results.require(f"{POSSIBLE}: {case.bottleneck}", _GOAL, "at least")
    return results


def _contestant(case: Case, say: Say) -> Contestant:
    name = case.bottleneck
    cases = {group: (f"{group}: {name}", unit) for group, unit in _UNITS.items()}

    def measured() -> Answer:
        found = judged(case, say)
        rates = (float(found.named == name), found.gain, found.foreseen, found.possible)
        return Answer(dict(zip(_UNITS, rates, strict=True)), {})

    return Contestant(name, cases, measured)


BENCHMARK = Benchmark(
    measure, (*MEMBERS, *POOL, *CLUSTER, *LAB, "deploy/why", "head/daemon", "workers")
)
