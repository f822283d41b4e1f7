"""Times the ``artos`` command: until the first step, and until the end of a short run.

``python -m evaluation.startup.artos_side run ppo --env CartPole-v1 --total-steps 2048`` answers
with ``first_s``, seconds from the command to the first step of an environment, ``all_s``, seconds
until the prompt is back, ``return``, the mean of the last 100 episodes' returns (0 before the first
one ends), and ``bare_s``, the seconds of ``python -c "import torch, gymnasium"``, of an Atari game
with ``ale_py``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from evaluation.baselines.timing import answer

BARE = "import torch, gymnasium"


def seconds(command: Sequence[str]) -> float:
    """Wall-clock seconds of a command.

    Raises:
        SystemExit: the command failed; carries its error output.
    """
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(done.stderr)
    return taken


def main() -> None:
    """Measure once."""
    env = sys.argv[sys.argv.index("--env") + 1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "run")
        command = [
            sys.executable,
            "-P",
            "-m",
            "deploy.cli",
            *sys.argv[1:],
            "--run-dir",
            str(folder),
        ]
        taken = seconds(command)
        summary = json.loads((folder / "summary.json").read_text())
    rates = {
        "first_s": summary["first_step_seconds"],
        "all_s": taken,
        "return": summary["mean_return_100"] or 0.0,
        "bare_s": seconds([sys.executable, "-c", BARE + ", ale_py" * ("NoFrameskip" in env)]),
    }
    answer(rates, ("torch", "gymnasium"))


if __name__ == "__main__":
    main()
