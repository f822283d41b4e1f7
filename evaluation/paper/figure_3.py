"""Figure 3: a number of actors that grows, and fixed ones, by updates and by the clock.

The paper trains PPO on Pong, rounds of 128 steps; two cores need hours for each of its lines. Here
it is Catch, with the same network and the same rounds; 2, 4 and 8 actors of two games, and from 2
to 8. The paper gives no figures, so there are none beside these.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from evaluation.core.benchmark import ELASTIC, MEMBERS, RAY_CORE, Benchmark
from evaluation.core.figure import save
from evaluation.core.report import OURS, Report, Results
from evaluation.core.runner import Answer, Contestant, Say, alternate, ours
from evaluation.paper import curves
from evaluation.paper.figures import lines, named, panels

ADAPTIVE = f"{OURS}, 2 to 8 actors"
NUMBERS = {
    f"{OURS}, 2 actors": "2", f"{OURS}, 4 actors": "4", f"{OURS}, 8 actors": "8",
    ADAPTIVE: "0:2,12:4,24:8",
}  # fmt: skip
"""It grows after a quarter and a half of the updates in which two actors reach the bar."""
BAR, STEPS, LONGEST = 6.0, 300_000, 900.0
"""The bar is where curves still rise: above 7 it is chance when one of them gets there."""
LOW = -100.0
"""The bar of a quick run, which any policy reaches."""
CLOCK, UPDATES = f"Catch, seconds to a mean return of {BAR:g}", "Catch, updates until then"
STEPS_TO = "Catch, environment steps until then"


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Train with all numbers in turn, and seeds 1, 2, …; ``quick`` only shows that it runs."""
    results = Results("paper-figure-3", repeats)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "curve.json")
        contestants = [
            Contestant(who, _cases(who), _trained(who, results, path, LOW if quick else BAR))
            for who in NUMBERS
        ]
        alternate(results, contestants, repeats, say)
    for group in (CLOCK, UPDATES, STEPS_TO):
        fixed = [f"{group}: {who}" for who in NUMBERS if who != ADAPTIVE]
        results.compare(f"{group}: {ADAPTIVE}", results.lowest(fixed), None)
    return results


def _cases(who: str) -> dict[str, tuple[str, str]]:
    return {
        "time_s": (f"{CLOCK}: {who}", "s"),
        "updates": (f"{UPDATES}: {who}", "updates"),
        "steps": (f"{STEPS_TO}: {who}", "steps"),
    }


def _trained(who: str, results: Results, path: Path, bar: float) -> Callable[[], Answer]:
    def measured() -> Answer:
        found = ours(
            "paper.artos_accuracy", "--bar", str(bar), "--seconds", str(LONGEST),
            "--curve", str(path), "run", "ppo", "--env", "evaluation.workloads.catch:make",
            "--actors", NUMBERS[who], "--set=envs=2", "--set=steps=128", "--set=anneal=false",
            "--total-steps", str(STEPS), "--seed", str(results.repetition),
            seconds=LONGEST + 300.0,
        )()  # fmt: skip
        if "steps" not in found.rates:
            seed = f"seed {results.repetition}"
            results.remark(f"{CLOCK}: {who}", f"{seed}: not reached, counted as the limit")
        points = curves.counted(curves.read(path))
        results.followed(
            f"{who}, seed {results.repetition}",
            {
                "seconds": [p.seconds for p in points],
                "updates": [p.updates for p in points],
                "return": [p.mean_return for p in points],
            },
        )
        return found

    return measured


def draw(report: Report, path: Path) -> list[Path]:
    """Mean returns by updates and by the clock."""
    figure, axes = panels(2)
    for panel, x in zip(axes, ("updates", "seconds"), strict=True):
        lines(panel, report, [*NUMBERS], x, "return", [*NUMBERS])
        named(panel, "Catch", x)
    made = path.with_suffix(".png")
    save(figure, report, made, "Figure 3: mean return of 100 episodes, a line for each seed", 9)
    return [made]


BENCHMARK = Benchmark(measure, (*MEMBERS, *ELASTIC, *RAY_CORE), draw)
