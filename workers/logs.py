"""Log files of actors: one each, kept across restarts, rotated when they grow."""

from __future__ import annotations

from pathlib import Path

MOST_BYTES = 4 << 20
_KEPT = 2


def rotate(log: Path, most: int = MOST_BYTES) -> bool:
    """Move the content aside once it exceeds ``most`` bytes; returns whether it did.

    ``actor-0.log`` goes to ``actor-0.log.1``, that to ``.2``. The file itself stays and is emptied,
    so a process that appends to it goes on without noticing.
    """
    try:
        if log.stat().st_size <= most:
            return False
    except FileNotFoundError:
        return False
    older = [log.with_name(f"{log.name}.{number}") for number in range(1, _KEPT + 1)]
    for source, target in zip(reversed(older[:-1]), reversed(older[1:]), strict=True):
        if source.exists():
            source.replace(target)
    older[0].write_bytes(log.read_bytes()[-most:])
    with log.open("r+b") as file:
        file.truncate(0)
    return True
