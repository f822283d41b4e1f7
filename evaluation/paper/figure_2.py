"""Figure 2: utilisation over time of PPO on Pong, on Ray and here, with fixed and growing numbers.

16 actors of one game instead of 32, and 4 to 16: the machine has two cores, not 48. Drawn is how
much of the machine all processes of a side use, their start included. The rows have what the paper
calls utilisation in (a), CPU used of that held: of Ray from its second update on, so that its start
is not held against it, and of ours in the whole run, as only its sums are billed. What it has in
(b), the use of a GPU, has no like on a CPU: our learner's lease is as long as its update.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from evaluation.core.benchmark import ELASTIC, MEMBERS, RAY_CORE, Benchmark
from evaluation.core.figure import save
from evaluation.core.report import OURS, Report, Results
from evaluation.core.runner import Answer, Contestant, Say, alternate
from evaluation.elasticity import adaptive
from evaluation.paper.adaptive_sides import RAY, calls
from evaluation.paper.figures import lines, named, panels
from evaluation.paper.said import FIGURE_2, beside
from evaluation.paper.utilisation import watched

USED = "CPU used of that held by actors"
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
        results.compare(f"{size}, {USED}: {OURS}", f"{size}, {USED}: {RAY}", None)
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
    for who, call in calls(words, _DEADLINE_SECONDS, say, "--preload").items():
        name = f"{who}, {size}"
        yield Contestant(
            name, {"cpu": (f"{size}, {USED}: {who}", "%")}, _watched(call, results, path, name)
        )


def _watched(
    call: Callable[[], Answer], results: Results, path: Path, name: str
) -> Callable[[], Answer]:
    """The same call, watched; its utilisation is a series."""

    def measured() -> Answer:
        with watched(len(os.sched_getaffinity(0))) as seen:
            found = call()
        results.followed(f"{name}, utilisation", {"seconds": seen.seconds, "percent": seen.percent})
        billed = "held_device_s" in found.rates
        used = _billed(found.rates) if billed else _kept(adaptive.read(path))
        return Answer({"cpu": used}, found.versions)

    return measured


def _billed(rates: Mapping[str, float]) -> float:
    """The percent used of what was held in the whole run."""
    return 100 * rates["used_cpu_s"] / rates["held_cpu_s"]


def _kept(updates: Sequence[adaptive.Update]) -> float:
    """The same from the second update on, where nothing is ever given back."""
    first, last = updates[0], updates[-1]
    return 100 * (last.used - first.used) / (last.held - first.held)


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


BENCHMARK = Benchmark(measure, (*MEMBERS, *ELASTIC, *RAY_CORE, "evaluation/elasticity"), draw)
