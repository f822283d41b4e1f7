"""One run: what its learner spent on recording, and how much was recorded.

``python -m evaluation.recording.artos_side dqn --env CartPole-v1`` answers with ``share_percent``
of the learner's time from its first invocation on, and ``mb_per_minute``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from artos.runs.tape import FOLDER
from evaluation.baselines.timing import answer
from evaluation.core.one_run import summary_of, trained
from evaluation.exactness.recorded import recorded
from evaluation.recording import watched


def run(algorithm: str, arguments: list[str]) -> dict[str, float]:
    """Train with these arguments of ``artos run``; returns both."""
    with trained(["run", f"{Path(watched.__file__)}:{algorithm}", *arguments]) as folder:
        told = json.loads((folder / FOLDER / "learner-0.json").read_text())
        minutes = summary_of(folder)["seconds"] / 60
        return {
            "share_percent": 100 * told["seconds"] / told["wall"],
            "mb_per_minute": recorded(folder) / 1e6 / minutes,
        }


def main() -> None:
    """Measure once."""
    answer(run(sys.argv[1], sys.argv[2:]), ("torch", "numpy", "gymnasium"))


if __name__ == "__main__":
    main()
