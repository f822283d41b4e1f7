"""One training run by the ``artos`` command: its steps per second and the time by activity.

``python -m evaluation.throughput.artos_side run ppo --env CartPole-v1 --total-steps 200000``
answers with ``steps_per_second``, from the first action to the last, without start-up, and with
``seconds.ACTIVITY``, summed over the processes.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import time
from pathlib import Path

from deploy.cli.__main__ import main as artos
from evaluation.baselines.timing import answer
from evaluation.core.runner import TIMES


def run(arguments: list[str]) -> dict[str, float]:
    """Train with these arguments of ``artos``; returns rates and the seconds by activity."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        start = time.perf_counter()
        status = artos([*arguments, "--run-dir", str(Path(folder, "run")), "--json"])
        if status:
            raise SystemExit(status)
        summary = json.loads(Path(folder, "run", "summary.json").read_text())
    times = {f"{TIMES}{name}": value for name, value in summary["times"].items()}
    began = time.perf_counter() - start - summary["seconds"]
    return {
        "steps_per_second": summary["steps_per_second"],
        f"{TIMES}start and stop": began,
    } | times


def main() -> None:
    """Measure once."""
    answer(run(sys.argv[1:]), ("torch", "numpy", "gymnasium"))


if __name__ == "__main__":
    main()
