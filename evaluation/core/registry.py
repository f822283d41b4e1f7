"""The registry of benchmarks; runs them for ``artos bench NAME``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from artos.closest import closest
from artos.errors import Refused
from evaluation.buffer import bench as buffer
from evaluation.core import sources
from evaluation.core.figure import draw, draw_series
from evaluation.core.report import Report, Results, print_table, read_json, write_json
from evaluation.core.runner import Say
from evaluation.elasticity import bench as elasticity
from evaluation.gpu import bench as gpu
from evaluation.learning import bench as pipeline_learning
from evaluation.pipelining import bench as pipelining
from evaluation.pipelining import figures
from evaluation.prewarm import bench as prewarm
from evaluation.prewarm import figures as prewarm_figures
from evaluation.replay import bench as replay
from evaluation.scheduler import bench as scheduler
from evaluation.sharing import bench as sharing
from evaluation.sharing import figures as sharing_figures
from evaluation.simulation import bench as simulation
from evaluation.startup import bench as startup
from evaluation.throughput import bench as throughput
from evaluation.triggers import bench as triggers

FOLDER = Path("bench-results")
REPEATS = 3
ALL = "all"

_MEMBERS = (
    "artos/actors", "artos/buffer", "artos/envs", "artos/learners", "artos/losses",
    "artos/policies", "artos/runtime", "triggers", "head/run",
)  # fmt: skip
_POOL = ("artos/pool",)
_ELASTIC = (*_POOL, "workers/actors", "workers/checkpoint")
_CLUSTER = ("artos/protocol", "artos/transport", "head/replay", "workers/agent")


def _bars(report: Report, path: Path) -> list[Path]:
    """One panel of bars for each group, and the series if there are any."""
    figures = [path.with_suffix(".png")]
    draw(report, figures[0])
    if report.series:
        figures.append(path.with_name(f"{path.stem}-series.png"))
        draw_series(report, figures[1])
    return figures


@dataclass(frozen=True)
class Benchmark:
    """``measures``: folders and files whose change makes its figures those of older code.

    ``draw`` writes the figures beside the path of a report's file, and says where they are.
    """

    measure: Callable[[int, bool, Say], Results]
    measures: tuple[str, ...] = ()
    draw: Callable[[Report, Path], list[Path]] = _bars


BENCHMARKS: dict[str, Benchmark] = {
    "buffer": Benchmark(buffer.measure, ("artos/buffer",)),
    "triggers": Benchmark(triggers.measure, ("artos/buffer", "triggers", "head/run/coordination")),
    "throughput": Benchmark(throughput.measure, _MEMBERS),
    "replay": Benchmark(replay.measure, _MEMBERS),
    "startup": Benchmark(startup.measure, (*_MEMBERS, *_POOL, "deploy/cli", "deploy/local")),
    "sharing": Benchmark(sharing.measure, (*_MEMBERS, *_POOL), sharing_figures.draw_all),
    "gpu": Benchmark(gpu.measure, ("artos/learners", *_POOL)),
    "elasticity": Benchmark(elasticity.measure, (*_MEMBERS, *_ELASTIC)),
    "prewarm": Benchmark(prewarm.measure, (*_MEMBERS, *_ELASTIC), prewarm_figures.draw_all),
    "pipelining": Benchmark(
        pipelining.measure,
        ("artos/buffer", *_CLUSTER, "head/run", "head/daemon"),
        figures.draw_all,
    ),
    "learning": Benchmark(pipeline_learning.measure, _MEMBERS),
    "scheduler": Benchmark(scheduler.measure, (*_POOL, "head/daemon")),
    "simulation": Benchmark(simulation.measure, ("head/simulation",)),
}


def run(
    name: str, json_path: Path | None = None, quick: bool = False, repeats: int = REPEATS
) -> int:
    """Run a benchmark: print its table, write JSON and figures; returns 0 if every goal holds.

    The JSON goes to ``json_path`` (default: ``bench-results/NAME.json``), the figures beside it as
    PNG. ``all`` runs every benchmark and adds each one's name to the file's name. A missed goal
    gives 1, except in a ``quick`` run, whose figures mean nothing.

    Raises:
        Refused: there is no benchmark of this name, or ``repeats`` is below 1.
    """
    if repeats < 1:
        raise Refused([f"--repeats must be at least 1, not {repeats}"])
    if name == ALL:
        return max(run(one, _beside(json_path, one), quick, repeats) for one in BENCHMARKS)
    if name not in BENCHMARKS:
        known = (*BENCHMARKS, ALL)
        hint = closest(name, known)
        raise Refused([f"unknown benchmark {name!r}{hint} (have {', '.join(known)})"])
    benchmark = BENCHMARKS[name]
    # Before it runs: what is edited meanwhile was not measured.
    commit, digests = sources.commit(), sources.digests(benchmark.measures)
    report = benchmark.measure(1 if quick else repeats, quick, _say).report()
    report = msgspec.structs.replace(report, commit=commit, sources=digests)
    path = json_path or FOLDER / f"{name}.json"
    write_json(report, path)
    figures = benchmark.draw(report, path)
    print_table(report)
    print(*(path, *figures), sep="\n")
    return 0 if quick or not missed(report) else 1


def written(name: str) -> Report | dict[str, Report]:
    """The report last written to the default file; for ``all`` the reports by name."""
    if name == ALL:
        return {one: read_json(FOLDER / f"{one}.json") for one in BENCHMARKS}
    return read_json(FOLDER / f"{name}.json")


def _beside(path: Path | None, name: str) -> Path | None:
    return path and path.with_stem(f"{path.stem}-{name}")


def missed(report: Report) -> int:
    """The number of goals that do not hold."""
    verdicts = [*(row.holds for row in report.rows), *(ratio.holds for ratio in report.ratios)]
    return verdicts.count(False)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Run the benchmarks named on the command line, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m evaluation.core.registry", description=__doc__)
    parser.add_argument("names", nargs="*", default=[ALL])
    parser.add_argument("--quick", action="store_true", help="only show that everything runs")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    codes = [run(name, None, options.quick, options.repeats) for name in options.names]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
