"""Elastic actors on Pong with the Nature network, compared with Ray's: start, park, scale.

Measures the start-up time and private memory of new actors, the time that parking takes and the
memory it frees, the cost of updates while the number of actors grows, and the tiers that
``park=auto`` chooses.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path

from artos.system import heap
from evaluation.core.benchmark import ELASTIC, MEMBERS, RAY_CORE, Benchmark
from evaluation.core.report import OURS, Bound, Results
from evaluation.core.runner import TIMES, Answer, Contestant, Say, alternate, baseline, ours
from evaluation.elasticity import adaptive

RAY = "Ray"
START = "start-up of one actor until its environment is reset"
TOGETHER = "start-up of several actors at once"
MEMORY = "private memory of each of several actors"
OUT = "parked actor, from asking until it has bound the weights"
INTO = "actor that has answered, until it is parked"
FREED = "memory given back by a parked actor"
UPDATES = "adaptive run: all updates, first start-up included"
LATER = "adaptive run: all updates, without the first start-up"
UPDATE = "adaptive run: median update"
STEP_UP = "adaptive run: update at a step up over its neighbours"
BEFORE = "adaptive run: update before a step up over its neighbours"
AFTER = "adaptive run: update after a step up over its neighbours"
HELD = "adaptive run: CPU-seconds held by actors"
DEVICE = "adaptive run: device-seconds held by the learner"
USED = "adaptive run: CPU-seconds used by actors"
SPENT = "adaptive run: seconds of all updates by activity"
PARK = "parking, 4 actors: median update"
KEPT = "parking, 4 actors: memory kept by those that wait"
CHOSE = "parking, 4 actors: what park=auto chose before a round"

IDLE = "in a process that it started ahead"
IMPORTED = f"{IDLE}, modules imported"
RAY_STARTS = (RAY, f"{RAY}, {IDLE}", f"{RAY}, {IMPORTED}")
"""How an actor of Ray's may start; the best is what ours is compared with."""
RAY_RUNS: dict[str, tuple[str, ...]] = {RAY: (), f"{RAY}, modules imported ahead": ("--preload",)}
"""Adaptive runs of Ray's, with their options; the one that is done first counts."""

COLD, CLONE, FORK = "cold", "template clone", "warm fork"
PARKS = {
    "memory": ("park=memory",),
    "freeze": ("park=freeze",),
    "checkpoint on disk": ("park=checkpoint", "images=disk"),
    "checkpoint on tmpfs": ("park=checkpoint", "images=tmpfs", "image_mb=4000"),
    "auto": ("park=auto",),
}
# By the place where an actor waits: the name of the way back, and the options that park it there.
_TIERS = {
    "memory": ("unpark", ("--park", "memory")),
    "freeze": ("thaw", ("--park", "freeze")),
    "checkpoint on tmpfs": ("restore from tmpfs", ("--park", "checkpoint", "--images", "tmpfs")),
    "checkpoint on disk": ("restore from disk", ("--park", "checkpoint", "--images", "disk")),
}
_SLOW = "restore from disk, not cached"
_UNCACHED = ("--park", "checkpoint", "--images", "disk", "--uncached")
_DEADLINE_SECONDS = 600.0
_Stretch = list[adaptive.Update]
_MILLISECONDS = dict.fromkeys(("out_s", "whole_s", "into_s"), 1e3)


@dataclass(frozen=True)
class Scale:
    """The amount of work: starts and parkings per repetition, clones at once, updates."""

    starts: int
    cycles: int
    together: tuple[int, ...]
    schedule: str
    updates: int
    steps: int
    parked_updates: int


FULL = Scale(
    starts=5,
    cycles=20,
    together=(1, 2, 4, 8, 16),
    schedule=",".join(f"{2 * n}:{5 * (n - 1)}" for n in range(1, 9)),
    updates=40,
    steps=64,
    parked_updates=15,
)
QUICK = Scale(
    starts=1, cycles=2, together=(1, 2), schedule="2:0,3:2", updates=4, steps=16, parked_updates=2
)


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure all contestants in turn; ``quick`` only shows that everything runs."""
    results, scale = Results("elasticity", repeats), QUICK if quick else FULL
    with tempfile.TemporaryDirectory() as folder:
        contestants = list(Contestants(scale, results, Path(folder), say))
        alternate(results, contestants, repeats, say)
    judge(results, scale)
    return results


BENCHMARK = Benchmark(measure, (*MEMBERS, *ELASTIC, *RAY_CORE))


def judge(results: Results, scale: Scale) -> None:
    """Compare the results with their goals."""

    def ratio(group: str, mine: str, theirs: str, goal: float | None = None) -> None:
        results.compare(f"{group}: {mine}", f"{group}: {theirs}", goal, "at most")

    def against_best(group: str, mine: str, *rays: str, goal: float | None = None) -> None:
        best = results.lowest(f"{group}: {ray}" for ray in rays) or f"{group}: {rays[0]}"
        results.compare(f"{group}: {mine}", best, goal, "at most")

    most = scale.together[-1]
    ratio(START, _our(CLONE), _our(COLD), 0.1)
    against_best(START, _our(CLONE), *RAY_STARTS, goal=0.06)
    ratio(START, _our(FORK), _our(COLD))
    for group in (TOGETHER, MEMORY):
        against_best(group, _our(_clones(most)), _rays(most), f"{_rays(most)}, {IMPORTED}")
    rays = {f"{UPDATES}: {who}": who for who in RAY_RUNS}
    fastest = rays.get(results.lowest(rays) or "", RAY)
    for group, goal in (
        (UPDATES, 0.85), (LATER, None), (UPDATE, None), (HELD, 0.45), (USED, None), (DEVICE, 0.41),
    ):  # fmt: skip
        ratio(group, OURS, fastest, goal)
    best = results.lowest(f"{PARK}: {_our(name)}" for name in PARKS if name != "auto")
    results.compare(f"{PARK}: {_our('auto')}", best, 1.05, "at most")
    for case, bound, goal in absolute_goals(most):
        results.require(case, goal, bound)


def absolute_goals(most: int) -> Iterator[tuple[str, Bound, float]]:
    """Goals of single cases, in their units: ``(case, bound, goal)``."""
    if most == FULL.together[-1]:
        yield f"{TOGETHER}: {_our(_clones(most))}", "at most", 1.6
        yield f"{MEMORY}: {_our(_clones(most))}", "at most", 8.0
    yield f"{START}: {_our(CLONE)}", "at most", 0.06
    yield f"{OUT}: {_our('unpark')}", "at most", 1.0
    yield f"{OUT}: {_our('restore from tmpfs')}", "at most", 60.0
    yield f"{OUT}: {_our('restore from disk')}", "at most", 60.0
    yield f"{STEP_UP}: {OURS}, median", "at most", 1.05
    yield f"{BEFORE}: {OURS}", "at most", 1.05
    yield f"{AFTER}: {OURS}", "at most", 1.05


class Contestants:
    """All contestants. ``folder`` is for the runs' reports about each of their updates."""

    def __init__(self, scale: Scale, results: Results, folder: Path, say: Say) -> None:
        self._scale, self._results, self._folder, self._say = scale, results, folder, say

    def __iter__(self) -> Iterator[Contestant]:
        yield from self.starts()
        yield from self.parked()
        yield from self.adaptive()
        yield from self.parking()

    def starts(self) -> Iterator[Contestant]:
        """New actors: one, and several at once."""
        for way, name in (("cold", COLD), ("fork", FORK)):
            cases = {"one_s": (f"{START}: {_our(name)}", "s")}
            yield Contestant(_our(name), cases, self._start(way))
        together = ",".join(map(str, self._scale.together))
        call = self._start("clone", "--together", together)
        cases = {
            "one_s": (f"{START}: {_our(CLONE)}", "s"),
            "first_s": (f"{START}: {_our(CLONE)}, the first with its template", "s"),
        }
        for number in self._scale.together:
            cases[f"together_s.{number}"] = (f"{TOGETHER}: {_our(_clones(number))}", "s")
            cases[f"mb.{number}"] = (f"{MEMORY}: {_our(_clones(number))}", "MB")
        yield Contestant(_our(CLONE), cases, call)
        most = self._scale.together[-1]
        cases = {
            "one_s": (f"{START}: {RAY}", "s"),
            "together_s": (f"{TOGETHER}: {_rays(most)}", "s"),
            "mb_per_actor": (f"{MEMORY}: {_rays(most)}", "MB"),
        }
        numbers = ("--repeats", str(self._scale.starts), "--together", str(most), "--envs", "1")
        yield Contestant(RAY, cases, self._idle_too(self._ray("elasticity.ray_start", *numbers)))
        cases = {key: (f"{case}, {IMPORTED}", unit) for key, (case, unit) in cases.items()}
        call = self._ray("elasticity.ray_start", *numbers, "--preload")
        yield Contestant(f"{RAY}, {IMPORTED}", cases, call)

    def parked(self) -> Iterator[Contestant]:
        """Parking one actor and bringing it back."""
        cycles = ("--repeats", str(self._scale.cycles))
        for name, (back, arguments) in _TIERS.items():
            cases = {
                "out_s": (f"{OUT}: {_our(back)}", "ms"),
                "into_s": (f"{INTO}: {_our(name)}", "ms"),
                "freed_mb": (f"{FREED}: {_our(name)}", "MB"),
            }
            call = self._ours("elasticity.artos_start", "park", *arguments, *cycles)
            yield Contestant(_our(back), cases, call, _MILLISECONDS)
        slow, call = _our(_SLOW), self._ours("elasticity.artos_start", "park", *_UNCACHED, *cycles)
        yield Contestant(slow, {"out_s": (f"{OUT}: {slow}", "ms")}, call, _MILLISECONDS)

    def adaptive(self) -> Iterator[Contestant]:
        """Runs with more and more actors: ARTOS and Ray."""
        arguments = (
            "--schedule", self._scale.schedule, "--count", str(self._scale.updates),
            "--steps", str(self._scale.steps), "--epochs", "1",
        )  # fmt: skip
        mine = self._updates(
            OURS, lambda *more: self._ours("elasticity.artos_adaptive", *arguments, *more)
        )
        yield Contestant(f"{OURS}, adaptive", _adaptive_cases(OURS), mine)
        for who, flags in RAY_RUNS.items():
            words = (*arguments, *flags)
            theirs = self._updates(who, partial(self._rays_run, *words))
            yield Contestant(f"{who}, adaptive", _adaptive_cases(who), theirs)

    def parking(self) -> Iterator[Contestant]:
        """The same short run with each way to park."""
        arguments = (
            "--schedule", "4:0", "--count", str(self._scale.parked_updates),
            "--steps", str(self._scale.steps), "--epochs", "1",
        )  # fmt: skip
        for name, settings in PARKS.items():
            cases = {
                "update_s": (f"{PARK}: {_our(name)}", "s"),
                "parked_mb_s": (f"{KEPT}: {_our(name)}", "MB·s"),
            }
            if name == "auto":
                for kind in ("in_memory", "thaws", "restores"):
                    cases[kind] = (f"{CHOSE}: {_our(_CHOSEN[kind])}", "rounds")
            pairs = [word for setting in settings for word in ("--set", setting)]
            call = self._ours("elasticity.artos_adaptive", *arguments, *pairs)
            yield Contestant(_our(f"park {name}"), cases, _spelling(call))

    # -- calls ---------------------------------------------------------------------------------

    def _start(self, way: str, *more: str) -> Callable[[], Answer]:
        repeats = ("--repeats", str(self._scale.starts), "--envs", "1")
        return self._ours("elasticity.artos_start", "start", "--way", way, *repeats, *more)

    def _ours(self, module: str, *arguments: str) -> Callable[[], Answer]:
        return ours(module, *arguments, seconds=_DEADLINE_SECONDS)

    def _ray(self, module: str, *arguments: str) -> Callable[[], Answer]:
        return baseline("ray", module, *arguments, seconds=_DEADLINE_SECONDS, say=self._say)

    def _rays_run(self, *arguments: str) -> Callable[[], Answer]:
        """With the allocator's settings that our learner has."""
        return baseline(
            "ray", "elasticity.ray_adaptive", *arguments, seconds=_DEADLINE_SECONDS, say=self._say,
            environment=heap.ENVIRONMENT,
        )  # fmt: skip

    def _updates(self, who: str, call: Callable[..., Callable[[], Answer]]) -> Callable[[], Answer]:
        """The same call; what it reports about each update is added to the results."""
        path = self._folder / f"{who}.json"
        run = call("--updates", str(path))

        def measured() -> Answer:
            found, updates = spelled(run()), adaptive.read(path)
            self._results.followed(who, series(updates))
            more = {
                "later_s": found.rates["run_s"] - updates[0].start,
                "before_step_up": statistics.median(before_step_ups(updates)),
                "after_step_up": statistics.median(after_step_ups(updates)),
                # Ray's learner has its resources for as long as it lives.
                "held_device_s": found.rates.get("held_device_s", found.rates["run_s"]),
            }
            return Answer({**found.rates, **more}, found.versions)

        return measured

    def _idle_too(self, call: Callable[[], Answer]) -> Callable[[], Answer]:
        """The same call; a measure that exists only if Ray had an idle process is added."""

        def measured() -> Answer:
            found = call()
            if "idle_worker_s" in found.rates:
                self._results.add(f"{START}: {RAY}, {IDLE}", "s", found.rates["idle_worker_s"])
            return found

        return measured


def spelled(found: Answer) -> Answer:
    """The same answer, with activities renamed so that they become rows of their own."""
    rates = {name.replace(TIMES, "spent."): rate for name, rate in found.rates.items()}
    return Answer(rates, found.versions)


def _spelling(call: Callable[[], Answer]) -> Callable[[], Answer]:
    return lambda: spelled(call())


_CHOSEN = {"in_memory": "memory", "thaws": "freeze", "restores": "checkpoint"}


def _adaptive_cases(who: str) -> dict[str, tuple[str, str]]:
    cases = {
        "run_s": (f"{UPDATES}: {who}", "s"),
        "later_s": (f"{LATER}: {who}", "s"),
        "update_s": (f"{UPDATE}: {who}", "s"),
        "step_up": (f"{STEP_UP}: {who}, median", "×"),
        "step_up_worst": (f"{STEP_UP}: {who}, worst", "×"),
        "before_step_up": (f"{BEFORE}: {who}", "×"),
        "after_step_up": (f"{AFTER}: {who}", "×"),
        "held_cpu_s": (f"{HELD}: {who}", "s"),
        "used_cpu_s": (f"{USED}: {who}", "s"),
        "held_device_s": (f"{DEVICE}: {who}", "s"),
    }
    return cases | {f"spent.{kind}": (f"{SPENT}: {who}, {kind}", "s") for kind in adaptive.KINDS}


def before_step_ups(updates: Sequence[adaptive.Update]) -> list[float]:
    """For each update before a step up: its seconds over the mean of earlier updates.

    This is when a contestant that makes actors ahead makes them. The earlier updates have the same
    number of actors; the first of them is left out, as it is a start-up or a step up itself. 1 if
    there are none to compare with.
    """
    return [_over(stretch[:0:-1]) for stretch, _ in _step_ups(updates)]


def after_step_ups(updates: Sequence[adaptive.Update]) -> list[float]:
    """For each update after a step up: its seconds over the mean of later updates as large.

    1 if there are none to compare with.
    """
    return [_over(stretch[1:]) for _, stretch in _step_ups(updates)]


def _step_ups(updates: Sequence[adaptive.Update]) -> Iterator[tuple[_Stretch, _Stretch]]:
    """The updates with one number of actors, and those with the next, if that is larger."""
    stretches = [[*same] for _, same in groupby(updates, lambda update: update.actors)]
    for before, after in pairwise(stretches):
        if after[0].actors > before[0].actors:
            yield before, after


def _over(updates: _Stretch) -> float:
    """The first of them over the mean of the others."""
    others = [update.total for update in updates[1:]]
    return updates[0].total / statistics.mean(others) if others else 1.0


def series(updates: Sequence[adaptive.Update]) -> dict[str, list[float]]:
    """The series of an adaptive run that its figure shows, update by update."""
    rows = [asdict(update) for update in updates]
    names = {"actors": "actors", "total": "seconds an update"}
    names |= {kind: f"{kind} (s)" for kind in adaptive.KINDS}
    names["held"] = "CPU-seconds held so far"
    return {shown: [float(row[name]) for row in rows] for name, shown in names.items()}


def _our(label: str) -> str:
    return f"{OURS}, {label}"


def _clones(number: int) -> str:
    return f"{number} clone{'s' * (number > 1)}"


def _rays(number: int) -> str:
    return f"{RAY}, {number} actors"
