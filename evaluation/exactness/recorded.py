"""How much of a run's records only its replay needs."""

from __future__ import annotations

from pathlib import Path

import msgspec

from artos.runs import tape
from triggers import journal

_OF_REPLAY = ("asked", "rows", "large", "incarnation")


def recorded(run: Path) -> int:
    """Bytes: tapes, what servers answered, and what the journal has beside its other uses."""
    if not tape.tapes(run, "learner"):
        return 0
    kept = (each for each in (run / tape.FOLDER).iterdir() if each.suffix in (".tape", ".answers"))
    tapes = sum(each.stat().st_size for each in kept)
    added, encode = 0, msgspec.json.encode
    for line in journal.read(run / "journal.jsonl"):
        of_replay = {name: line[name] for name in _OF_REPLAY if name in line}
        added += len(encode(of_replay)) - 1 if of_replay else 0
    return tapes + added
