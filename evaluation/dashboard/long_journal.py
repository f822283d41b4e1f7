"""Seconds from a question for the timeline of a run with a long journal to its whole answer.

``python -m evaluation.dashboard.long_journal FOLDER`` asks a new dashboard of the runs in a folder;
with ``--make MB`` the folder is first filled with such a run: one of PPO, the lines of whose
journal are repeated as if it had gone on.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import closing, redirect_stdout
from pathlib import Path
from typing import Any

import msgspec

from deploy.cli.__main__ import main as artos
from evaluation.baselines.timing import answer
from evaluation.dashboard.served import answered, dashboard
from triggers import journal
from triggers.journal import Journal

NAME = "long"
_NUMBERS = ("firing", "done", "version", "stop")
_STEPS = "4000"


def make(folder: Path, megabytes: int) -> None:
    """Train for a moment, and have the journal go on to so many MB."""
    run = trained(folder / NAME)
    lines = [line for line in journal.read(run / "journal.jsonl") if "t" in line]
    with closing(Journal(run / "journal.jsonl")) as written:
        for size, line in on_and_on(lines):
            written.write(line)
            if size > megabytes * 1e6:
                break
        written.flush()


def trained(run: Path) -> Path:
    """The folder of a run that has trained for a moment.

    Raises:
        SystemExit: it failed.
    """
    words = ("run", "ppo", "--env", "CartPole-v1", "--total-steps", _STEPS, "--actors", "2")
    with redirect_stdout(sys.stderr):
        failed = artos([*words, "--set", "steps=32", "--run-dir", str(run), "--json"])
    if failed:
        raise SystemExit("the run failed")
    return run


def on_and_on(lines: list[dict[str, Any]]) -> Iterator[tuple[float, dict[str, Any]]]:
    """The lines again and again, later each time, and about how many bytes there are by then."""
    body = [line for line in lines if "firing" in line or "done" in line]
    most = {name: max(line.get(name, 0) for line in body) for name in _NUMBERS}
    bytes_of = sum(len(msgspec.json.encode(line)) + 1 for line in body)
    each = lines[-1]["t"]
    size, number = 0.0, 0
    while True:
        number += 1
        for line in body:
            shifted = {n: line[n] + number * most[n] for n in _NUMBERS if n in line}
            size += bytes_of / len(body)
            yield size, line | shifted | {"t": round(line["t"] + number * each, 6)}


def main() -> None:
    """Fill the folder, or measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--make", type=int, metavar="MB")
    options = parser.parse_args()
    if options.make is not None:
        make(options.folder, options.make)
        answer({}, ())
        return
    with dashboard("--runs", str(options.folder)) as at:
        answered(at, "/")
        began = time.perf_counter()
        answered(at, f"/api/runs/{NAME}/timeline")
        seconds = time.perf_counter() - began
        began = time.perf_counter()
        answered(at, f"/api/runs/{NAME}")
        about = time.perf_counter() - began
    run = options.folder / NAME
    size = sum(file.stat().st_size for file in run.glob("journal*"))
    answer({"seconds": seconds, "about": about, "packed_mb": size / 1e6}, ("starlette", "uvicorn"))


if __name__ == "__main__":
    main()
