"""Table 6 and Figure 16: 4 to 32 actors by 4, in 200 and in 40 updates, beside Ray's core.

An actor has one game of Pong and rounds of 64 steps, an eighth of the paper's, and the learner
makes one epoch: what two cores carry, which all 32 actors share with the learner. Ray has a process
for each actor before the clock starts, with the modules imported.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from evaluation.core.benchmark import ELASTIC, MEMBERS, RAY_CORE, Benchmark
from evaluation.core.figure import save
from evaluation.core.report import OURS, Report, Results
from evaluation.core.runner import Answer, Contestant, Say, alternate
from evaluation.elasticity import adaptive
from evaluation.paper.adaptive_sides import RAY, calls
from evaluation.paper.figures import named, panels, shaded
from evaluation.paper.said import TABLE_6, beside

MEASURES = {
    "run_s": "all of them",
    "held_cpu_s": "CPU held by actors",
    "used_cpu_s": "CPU used by actors",
    "held_device_s": "device held by the learner",
}
_DEADLINE_SECONDS = 2_400.0


@dataclass(frozen=True)
class Size:
    """``updates`` in all; from 4 actors on, 4 more every so many updates up to ``most``."""

    updates: int
    most: int = 32
    steps: int = 64

    @property
    def schedule(self) -> str:
        """As the scripts take it."""
        numbers = range(4, self.most + 1, 4)
        every = self.updates // len(numbers)
        return ",".join(f"{number}:{place * every}" for place, number in enumerate(numbers))


FULL, SHORT = (Size(200), Size(40)), (Size(4, 8, 16),)


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Run both sides in turn; ``quick`` only shows that everything runs."""
    results, sizes = Results("paper-table-6", repeats), SHORT if quick else FULL
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "updates.json")
        contestants = [each for size in sizes for each in _contestants(size, results, path, say)]
        alternate(results, contestants, repeats, say)
    for size in sizes:
        for said in MEASURES.values():
            results.compare(case(size, said, OURS), case(size, said, RAY), None)
        for who in (OURS, RAY):
            results.followed(f"{who}, {size.updates} updates", _shades(results, who, size))
    pairs = {
        f"{size.updates} updates, {said}, {OURS} over {RAY}": (
            case(size, said, OURS), case(size, said, RAY)
        )
        for size in sizes
        for said in MEASURES.values()
    }  # fmt: skip
    beside(results, TABLE_6, pairs)
    return results


def case(size: Size, measure: str, who: str) -> str:
    """The name of a row."""
    return f"{size.updates} updates, {measure}: {who}"


def _contestants(size: Size, results: Results, path: Path, say: Say) -> Iterator[Contestant]:
    words = (
        "--schedule", size.schedule, "--count", str(size.updates), "--steps", str(size.steps),
        "--envs", "1", "--epochs", "1", "--updates", str(path),
    )  # fmt: skip
    for who, call in calls(words, _DEADLINE_SECONDS, say, "--preload").items():
        cases = {key: (case(size, said, who), "s") for key, said in MEASURES.items()}
        name = f"{who}, {size.updates} updates"
        yield Contestant(name, cases, _followed(call, results, path, name))


def _followed(
    call: Callable[[], Answer], results: Results, path: Path, name: str
) -> Callable[[], Answer]:
    """The same call; the seconds of each update are kept by activity."""

    def measured() -> Answer:
        found = call()
        updates = adaptive.read(path)
        for kind in adaptive.KINDS:
            seconds = [getattr(update, kind) for update in updates]
            results.kept.setdefault(f"{name}, {kind}", []).append(seconds)
        # Ray's learner has its device for as long as it lives.
        held = {"held_device_s": found.rates.get("held_device_s", found.rates["run_s"])}
        return Answer({**found.rates, **held}, found.versions)

    return measured


def _shades(results: Results, who: str, size: Size) -> dict[str, list[float]]:
    """By activity the median of each update over repetitions, the smallest and the largest."""
    found: dict[str, list[float]] = {}
    for kind in adaptive.KINDS:
        repetitions = results.kept.get(f"{who}, {size.updates} updates, {kind}", [])
        columns = [*zip(*repetitions, strict=True)]
        found[kind] = [statistics.median(column) for column in columns]
        found[f"{kind}, smallest"] = [min(column) for column in columns]
        found[f"{kind}, largest"] = [max(column) for column in columns]
    return found


def draw(report: Report, path: Path) -> list[Path]:
    """Figure 16: what each update spends its time on; the shade is from smallest to largest.

    Both sides of a number of updates have one scale.
    """
    who = [name for name, series in report.series.items() if series.get("learn")]
    if not who:
        return []
    figure, axes = panels(len(who))
    for panel, name in zip(axes, who, strict=True):
        shaded(panel, report, name, adaptive.KINDS)
        size = name.partition(", ")[2]
        alike = [each for other, each in report.series.items() if other.endswith(size)]
        panel.set_ylim(0, 1.05 * max(max(seconds) for each in alike for seconds in each.values()))
        named(panel, name, "update")
    made = path.with_suffix(".png")
    save(figure, report, made, "Figure 16: seconds of an update; shade: smallest to largest", 9)
    return [made]


BENCHMARK = Benchmark(measure, (*MEMBERS, *ELASTIC, *RAY_CORE, "evaluation/elasticity"), draw)
