"""One off-policy run by the ``artos`` command: its pace, and how often rows were drawn.

``python -m evaluation.replay.artos_side run sac --total-steps 2000`` answers with
``steps_per_second`` and ``update_ms``, from the first action to the last, and ``replay_ratio``.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path

from deploy.cli.__main__ import main as artos
from evaluation.baselines.timing import answer


def run(arguments: list[str]) -> dict[str, float]:
    """Train with these arguments of ``artos``; returns the rates."""
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()):
        folder = Path(name, "run")
        if status := artos([*arguments, "--run-dir", str(folder), "--json"]):
            raise SystemExit(status)
        summary = json.loads((folder / "summary.json").read_text())
    return {
        "steps_per_second": summary["steps_per_second"],
        "update_ms": 1e3 * summary["seconds"] / summary["updates"],
        "replay_ratio": summary["replay_ratio"],
    }


def main() -> None:
    """Measure once."""
    answer(run(sys.argv[1:]), ("torch", "numpy", "gymnasium"))


if __name__ == "__main__":
    main()
