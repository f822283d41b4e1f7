"""For how long a run went on after the last line of its journal."""

from __future__ import annotations

from pathlib import Path

from head.records import summary_file
from head.records.run_lock import is_live


def went_on(folder: Path, now: float) -> float | None:
    """Seconds from its last line until ``now``, or until the last sign of life of a killed run.

    ``now`` is in seconds since 1970. None: it has ended by itself, or that is not known.
    """
    try:
        last = (folder / "journal.jsonl").stat().st_mtime
        if is_live(folder):
            return max(0.0, now - last)
        if (folder / summary_file.FILE).exists():
            return None
        # It was killed, or copied while it went on: it wrote a row there every half second.
        return max(0.0, (folder / "progress.csv").stat().st_mtime - last)
    except OSError:
        return None
