"""One run by the ``artos`` command until its mean return reaches a bar.

``python -m evaluation.paper.artos_accuracy --bar 100 --seconds 600 --curve FILE run ppo …`` answers
with the rates of ``evaluation.paper.curves``. The clock begins with the command.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from evaluation.paper.curves import Point, at_bar, parser_of, tell

_LOOK_SECONDS, _END_SECONDS = 0.5, 120.0
_COSTS = (
    "cpu_seconds_held", "cpu_seconds_used", "device_seconds_held", "device_seconds_used"
)  # fmt: skip


def points_of(progress: Path, before: float) -> Iterator[Point]:
    """The points that a run has told so far, ``before`` seconds after its command began."""
    if not progress.exists():
        return
    with progress.open(newline="") as lines:
        for row in csv.DictReader(lines):
            if None not in row.values():  # the last line may be incomplete
                yield _point(row, before)


def _point(row: Mapping[str, str], before: float) -> Point:
    costs = (float(row.get(f"usage/{name}") or 0.0) for name in _COSTS)
    return Point(
        before + float(row["seconds"]), float(row["steps"]), float(row["updates"]),
        float(row["episodes"]), float(row["mean_return_100"] or -math.inf), *costs,
    )  # fmt: skip


def run(arguments: list[str], bar: float, seconds: float) -> list[Point]:
    """Train until the bar, the end or for so long; returns the points.

    Raises:
        SystemExit: the run failed, or told nothing in this time.
    """
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryFile("w+") as log:
        folder = Path(name, "run")
        command = [sys.executable, "-P", "-m", "deploy.cli", *arguments, "--run-dir", str(folder)]
        began = time.monotonic()
        with subprocess.Popen(command, stdout=log, stderr=log) as process:
            while process.poll() is None and time.monotonic() - began < seconds:
                time.sleep(_LOOK_SECONDS)
                if at_bar([*points_of(folder / "progress.csv", 0.0)], bar):
                    break
            stopped = process.poll() is None
            if stopped:
                process.send_signal(signal.SIGINT)
            status = process.wait(_END_SECONDS)
        if (status and not stopped) or not (folder / "summary.json").exists():
            log.seek(0)
            raise SystemExit(f"no result after {seconds:g} s: {log.read()[-2000:]}")
        summary = json.loads((folder / "summary.json").read_text())
        points = [*points_of(folder / "progress.csv", summary["first_step_seconds"] or 0.0)]
        if not points:
            raise SystemExit(f"the run had told nothing after {seconds:g} s")
        return points


def main() -> None:
    """Measure once."""
    parser = parser_of(__doc__)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    points = run(options.command, options.bar, options.seconds)
    tell(points, options, ("torch", "gymnasium", "ale-py"))


if __name__ == "__main__":
    main()
