"""Figure 2: utilisation over time of PPO on Pong, on Ray and here, with fixed and growing numbers.

16 actors of one game instead of 32, and 4 to 16: the machine has two cores, not 48. Drawn is how
much of the machine all processes of a side use, their start included. The rows have what the paper
calls utilisation in (a), CPU used of that held, and (b) for the learner's device, which here is a
lease of the same cores; Ray's begin with the second update, so that the start is not held against
it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from evaluation.core.benchmark import ELASTIC, MEMBERS, Benchmark
from evaluation.core.figure import save
from evaluation.core.report import OURS, Report, Results
from evaluation.core.runner import TIMES, Answer, Contestant, Say, alternate
from evaluation.elasticity import adaptive
from evaluation.paper.adaptive_sides import RAY, calls
from evaluation.paper.figures import lines, named, panels
from evaluation.paper.said import FIGURE_2, beside
from evaluation.paper.utilisation import watched

MEASURES = {
    "cpu": "CPU used of that held by actors",
    "device": "device used of that held by the learner",
}
FULL = {"16 actors": ("16:0", 12), "4 to 16 actors": ("4:0,8:3,12:6,16:9", 12)}
SHORT = {"2 actors": ("2:0", 2)}
_STEPS, _DEADLINE_SECONDS = 64, 1_200.0


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Run both sides in turn; ``quick`` only shows that everything runs."""
    results, sizes = Results("paper-figure-2", repeats), SHORT if quick else FULL
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "updates.json")
        contestants = [c for size in sizes for c in _contestants(size, sizes, results, path, say)]
        alternate(results, contestants, repeats, say)
    for size in sizes:
        for said in MEASURES.values():
            results.compare(f"{size}, {said}: {OURS}", f"{size}, {said}: {RAY}", None)
    beside(results, FIGURE_2, {})
    return results


def _contestants(
    size: str, sizes: dict[str, tuple[str, int]], results: Results, path: Path, say: Say
) -> Iterator[Contestant]:
    schedule, updates = sizes[size]
    words = (
        "--schedule", schedule, "--count", str(updates), "--steps", str(_STEPS), "--envs", "1",
        "--epochs", "4", "--updates", str(path),
    )  # fmt: skip
    for who, call in calls(words, _DEADLINE_SECONDS, say).items():
        cases = {key: (f"{size}, {said}: {who}", "%") for key, said in MEASURES.items()}
        name = f"{who}, {size}"
        yield Contestant(name, cases, _watched(call, results, path, name))


def _watched(
    call: Callable[[], Answer], results: Results, path: Path, name: str
) -> Callable[[], Answer]:
    """The same call, watched; its utilisation is a series."""

    def measured() -> Answer:
        cores = len(os.sched_getaffinity(0))
        with watched(cores) as seen:
            found = call()
        lent = "held_device_s" in found.rates  # else everything is held from its start to the end
        shares = _lent(found.rates) if lent else _kept(adaptive.read(path), cores)
        results.followed(f"{name}, utilisation", {"seconds": seen.seconds, "percent": seen.percent})
        return Answer(shares, found.versions)

    return measured


def _lent(rates: Mapping[str, float]) -> dict[str, float]:
    """By measure the percent used of what was held in the whole run."""
    return {
        "cpu": 100 * rates["used_cpu_s"] / rates["held_cpu_s"],
        "device": 100 * rates[f"{TIMES}learn"] / rates["held_device_s"],
    }


def _kept(updates: Sequence[adaptive.Update], cores: int) -> dict[str, float]:
    """The same from the second update on, where nothing is ever given back.

    Each actor reserves a CPU; more of them than cores hold all cores, and no more.
    """
    first, *later = updates
    seconds = sum(update.total for update in later)
    cpus = min(later[-1].held - first.held, cores * seconds)
    return {
        "cpu": 100 * (later[-1].used - first.used) / cpus,
        "device": 100 * sum(update.learn for update in later) / seconds,
    }


def draw(report: Report, path: Path) -> list[Path]:
    """A panel for each number of actors."""
    sizes = [s for s in (*FULL, *SHORT) if f"{OURS}, {s}, utilisation" in report.series]
    if not sizes:
        return []
    figure, axes = panels(len(sizes))
    for panel, size in zip(axes, sizes, strict=True):
        names = [f"{OURS}, {size}", f"{RAY}, {size}"]
        lines(panel, report, names, "seconds", "percent", [OURS, RAY])
        panel.set_ylim(0, 105)
        named(panel, size, "seconds")
    made = path.with_suffix(".png")
    title = "Figure 2: percent of the machine that a side uses, its start included"
    save(figure, report, made, title, 9)
    return [made]


BENCHMARK = Benchmark(measure, (*MEMBERS, *ELASTIC, "evaluation/elasticity"), draw)
