"""One run by the ``artos`` command, and what it plays afterwards, greedily.

``python -m evaluation.defaults.artos_side run dqn --env CartPole-v1`` answers with the mean return
of its ``final`` policy, and of its ``best`` one if the run has evaluated some.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

from deploy.cli.__main__ import main as artos
from evaluation.baselines.timing import answer
from evaluation.core.one_run import trained

EPISODES, SEED = 20, 1000
"""Of a seed that no evaluation of a run plays with: the best of many is the lucky one, too."""


def run(arguments: list[str]) -> dict[str, float]:
    """Train with these arguments of ``artos``, and play.

    Raises:
        SystemExit: the run failed, or its policy cannot be played.
    """
    with trained(arguments) as folder:
        found = {"final": _played(folder)}
        if (folder / "best").exists():
            found["best"] = _played(folder, "--best")
    return found


def _played(folder: Path, *which: str) -> float:
    words = ["eval", str(folder), *which, "--greedy", "--episodes", str(EPISODES)]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = artos([*words, "--seed", str(SEED), "--json"])
    if status:
        raise SystemExit(status)
    return float(json.loads(printed.getvalue())["mean_return"])


def main() -> None:
    """Train and play once."""
    answer(run(sys.argv[1:]), ("torch", "numpy", "gymnasium"))


if __name__ == "__main__":
    main()
