"""Runs comparable measurements: all contestants take turns, in one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from artos.errors import ArtosError
from evaluation.baselines import environments, processes
from evaluation.core import progress
from evaluation.core.report import Results

Say = Callable[[str], None]

TIMES = "seconds."
"""Prefix of measures that say how a run spent its time."""


class Answer(NamedTuple):
    """One repetition: values by measure, and the versions of the packages that made them."""

    rates: Mapping[str, float]
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Contestant:
    """One thing to measure; ``cases`` maps each measure of its answer to ``(case, unit)``.

    ``scale`` multiplies a measure, e.g. by bytes per row, to turn rows into bytes.
    """

    name: str
    cases: Mapping[str, tuple[str, str]]
    measure: Callable[[], Answer]
    scale: Mapping[str, float] | None = None


def cases_of(measures: Mapping[str, tuple[str, str]], who: str) -> dict[str, tuple[str, str]]:
    """A contestant's ``cases``, of measures whose case is the same for all but for ``who``."""
    return {key: (f"{case}: {who}", unit) for key, (case, unit) in measures.items()}


def alternate(
    results: Results, contestants: Sequence[Contestant], repeats: int, say: Say = print
) -> None:
    """Measure all contestants in turn, ``repeats`` times; values go to ``results``.

    A contestant that fails is left out of later rounds; for this one and those it has no values,
    and the reason is noted. A measure that is missing from an answer is noted; the answer's other
    measures count. What a benchmark that was stopped has measured is not measured again.

    Raises:
        ValueError: two contestants have one name, by which it is known what has been measured.
    """
    twice = [
        name for name, count in Counter(each.name for each in contestants).items() if count > 1
    ]
    if twice:
        raise ValueError(f"{results.name}: several contestants are called {', '.join(twice)}")
    kept = progress.current()
    if kept:
        kept.restore(results)
    done, failed = (set(kept.state.measured), set(kept.state.failed)) if kept else (set(), set())
    running = [contestant for contestant in contestants if contestant.name not in failed]
    for number in range(1, repeats + 1):
        results.repetition = number
        for contestant in list(running):
            if (number, contestant.name) in done:
                continue
            say(f"{results.name} {number}/{repeats}: {contestant.name}")
            try:
                _record(results, contestant, contestant.measure())
            except ArtosError as error:
                say(f"{contestant.name}: {error}")
                why = f"failed in repetition {number}: {error}" if number > 1 else str(error)
                for case, unit in list(contestant.cases.values()) * (repeats - number + 1):
                    results.missed(case, unit, why)
                running.remove(contestant)
                if kept:
                    kept.state.failed.append(contestant.name)
            if kept:
                kept.measured(results, number, contestant.name)


def _record(results: Results, contestant: Contestant, answer: Answer) -> None:
    results.used(contestant.name, answer.versions)
    for measure, (case, unit) in contestant.cases.items():
        factor = (contestant.scale or {}).get(measure, 1.0)
        if measure in answer.rates:
            results.add(case, unit, answer.rates[measure] * factor)
        else:
            results.missed(case, unit, f"{measure} is not in the answer")
    times = {name: value for name, value in answer.rates.items() if name.startswith(TIMES)}
    for case, _ in contestant.cases.values() if times else ():
        results.spent(case, {name.removeprefix(TIMES): value for name, value in times.items()})


def baseline(
    name: str,
    module: str,
    *arguments: str,
    seconds: float,
    say: Say,
    environment: Mapping[str, str] | None = None,
) -> Callable[[], Answer]:
    """A measurement in a baseline's own environment (made if needed), each in a fresh process.

    The returned function raises the error if the baseline could not be installed or fails.
    """
    try:
        python = environments.prepare(name, say).python
    except environments.BaselineAbsent as absent:
        return _raising(absent)
    return lambda: Answer(
        *processes.measure(python, module, *arguments, seconds=seconds, environment=environment)
    )


def ours(
    module: str, *arguments: str, seconds: float, environment: Mapping[str, str] | None = None
) -> Callable[[], Answer]:
    """A measurement of ARTOS in a fresh process, with the interpreter that runs the benchmark."""
    return lambda: Answer(
        *processes.measure_ours(module, *arguments, seconds=seconds, environment=environment)
    )


def _raising(error: ArtosError) -> Callable[[], Answer]:
    def measure() -> Answer:
        raise error

    return measure
