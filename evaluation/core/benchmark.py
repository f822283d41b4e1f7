"""What a ``bench.py`` declares: how its benchmark measures, what it watches, what it draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from evaluation.core.figure import draw, draw_series
from evaluation.core.report import Report, Results
from evaluation.core.runner import Say

MEMBERS = (
    "artos/actors", "artos/buffer", "artos/envs", "artos/learners", "artos/losses",
    "artos/policies", "artos/runtime", "artos/system", "triggers", "head/run",
)  # fmt: skip
_BASELINES = "evaluation/baselines"
SHARED = (
    *(f"{_BASELINES}/{name}.py"
      for name in ("environments", "guard", "one_file_ppo", "processes", "ray_cluster", "timing")),
    "evaluation/workloads",
)  # fmt: skip
RAY_CORE = tuple(
    f"{_BASELINES}/{name}.py"
    for name in ("ray_actors", "split_pictures_sac", "split_ppo", "split_sac")
)
"""What Ray's core is given to run."""
POOL = ("artos/pool",)
ELASTIC = (*POOL, "workers/actors", "workers/checkpoint")
LAB = ("evaluation/control_plane", "evaluation/lab")
CLUSTER = ("artos/protocol", "artos/transport", "head/replay", "workers/agent")


def bars(report: Report, path: Path) -> list[Path]:
    """Draw one panel of bars for each group next to ``path``, and the series if there are any."""
    figures = [path.with_suffix(".png")]
    draw(report, figures[0])
    if report.series:
        figures.append(path.with_name(f"{path.stem}-series.png"))
        draw_series(report, figures[1])
    return figures


@dataclass(frozen=True)
class Benchmark:
    """``BENCHMARK`` of ``evaluation/NAME/bench.py``, which ``artos bench NAME`` runs.

    ``measure`` takes the number of repetitions, whether the run is a quick one, and where to say
    what it does. ``measures`` are the folders and files whose change makes its figures those of
    older code; ``within`` adds those of the benchmark itself. ``draw`` writes the figures next to
    the path of a report's file, and returns where they are. ``parts`` are the benchmarks of its
    single tasks by name, where one alone makes sense. ``least``: fewest repetitions, more than one
    where these are seeds and a proof needs so many.
    """

    measure: Callable[[int, bool, Say], Results]
    measures: tuple[str, ...] = ()
    draw: Callable[[Report, Path], list[Path]] = bars
    parts: Mapping[str, Benchmark] = field(default_factory=dict)
    least: int = 1

    def within(self, folder: str) -> Benchmark:
        """The same, known to be in this folder, whose files also decide what its figures are."""
        measures = tuple(dict.fromkeys((*self.measures, folder, *SHARED)))
        parts = {name: part.within(folder) for name, part in self.parts.items()}
        return replace(self, measures=measures, parts=parts)
