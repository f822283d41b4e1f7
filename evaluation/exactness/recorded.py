"""How much of a run's records only its replay needs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from artos.runs import tape
from triggers import journal
from triggers.journal_parts import packer

_OF_REPLAY = {"asked", "rows", "large", "incarnation"}


def recorded(run: Path) -> int:
    """Bytes: tapes, what servers answered, and what the journal has beside its other uses.

    The journal counts as it is stored but for its newest 64 MB: packed, with and without that.
    """
    if not tape.tapes(run, "learner"):
        return 0
    kept = (each for each in (run / tape.FOLDER).iterdir() if each.suffix in (".tape", ".answers"))
    tapes = sum(each.stat().st_size for each in kept)
    lines = [*journal.read(run / "journal.jsonl")]
    others = ({name: line[name] for name in line if name not in _OF_REPLAY} for line in lines)
    return tapes + _packed(lines) - _packed(others)


def _packed(lines: Iterable[dict[str, Any]]) -> int:
    """Bytes of such a part of a journal."""
    told, frame = b"".join(msgspec.json.encode(line) + b"\n" for line in lines), packer()
    return len(frame.begin() + frame.compress(told) + frame.flush())
