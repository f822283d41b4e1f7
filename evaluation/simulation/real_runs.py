"""Real runs of this machine, alone and at the same time, and what is simulated of them.

``python -m evaluation.simulation.real_runs 1`` makes runs of full length, 0.1 of a tenth of it. It
answers with seconds from when the first run's members are started to the end of the last run:
``NAME.measured`` of a run alone, ``both.measured`` of both at the same time; of each ``.simulated``
from its own journals, and ``both.forecast`` from those of the runs that were alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from deploy.simulation.cluster import Cluster
from deploy.simulation.recorded import recorded
from deploy.simulation.workload import Workload
from evaluation.baselines.timing import answer

RUNS = {
    "ppo": ("ppo", "--env", "CartPole-v1", "--actors", "4"),
    "sac": ("sac", "--env", "Pendulum-v1", "--actors", "2"),
}
UPDATES = {"ppo": 80, "sac": 1_000}


def run(folder: Path, names: Sequence[str], share: float) -> list[Path]:
    """Make these runs at the same time; returns their folders.

    Raises:
        SystemExit: a run failed; carries its error output.
    """
    started = [subprocess.Popen(_command(folder, name, share), stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True) for name in names]  # fmt: skip
    for process in started:
        _, said = process.communicate()
        if process.returncode:
            raise SystemExit(said)
    return [folder / name for name in names]


def _command(folder: Path, name: str, share: float) -> list[str]:
    updates = max(4, round(UPDATES[name] * share))
    artos = [sys.executable, "-P", "-m", "deploy.cli", "run", *RUNS[name]]
    return [*artos, "--total-updates", str(updates), "--run-dir", str(folder / name)]


def measured(folders: Sequence[Path]) -> float:
    """What these runs took, which were started at the same time."""
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in folders]
    return float(max(each["wall_seconds"] for each in summaries)) - _started(recorded(folders))


def simulated(folders: Sequence[Path]) -> float:
    """What is simulated of them on a node like this machine."""
    workloads, slots = recorded(folders), len(os.sched_getaffinity(0))
    return Cluster(1, slots).run(workloads).makespan - _started(workloads)


def _started(workloads: Sequence[Workload]) -> float:
    """When the first run's members are started: before that nothing is simulated."""
    return min(each.starts.process for each in workloads)


def main() -> None:
    """Measure and simulate once."""
    share, rates = float(sys.argv[1]), dict[str, float]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone = {each: run(folder / "alone", [each], share) for each in RUNS}
        found = {**alone, "both": run(folder / "together", [*RUNS], share)}
        for each, folders in found.items():
            rates[f"{each}.measured"] = measured(folders)
            rates[f"{each}.simulated"] = simulated(folders)
        rates["both.forecast"] = simulated([one for folders in alone.values() for one in folders])
    answer(rates, ("torch", "gymnasium"))


if __name__ == "__main__":
    main()
