"""How much of a run's records only its replay needs."""

from __future__ import annotations

from pathlib import Path

import msgspec

from artos.runs import tape
from triggers import journal


def recorded(run: Path) -> int:
    """Bytes: tapes, and what the journal has beside its other uses."""
    tapes = sum(each.stat().st_size for each in tape.tapes(run, "learner"))
    added, encode = 0, msgspec.json.encode
    if not tapes:
        return 0
    for line in journal.read(run / "journal.jsonl"):
        of_replay = {name: line[name] for name in ("asked", "rows", "incarnation") if name in line}
        added += len(encode(of_replay)) - 1 if of_replay else 0
    return tapes + added
