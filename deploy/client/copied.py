"""What a copy of a run's folder remembers of the run: its state when it was copied."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from artos.protocol.run_state import ACTIVE, QUEUED
from artos.system.regular_file import contents
from head.records.run_lock import is_live

MARK = ".copy-of"
"""In each copy: the file that says of which run it is, and is locked by whoever copies into it."""
_FILE, _OWN = ".copied", "goes on by itself"
_MOST = 64


def remember(copy: Path, state: str) -> None:
    """Note the state in which the run was.

    Raises:
        OSError: it cannot be written.
    """
    (copy / _FILE).write_text(state)


def copied_at(copy: Path) -> float:
    """When it was copied, or last checked for news, in seconds since 1970.

    0 if it is no copy, or one that goes on by itself.
    """
    with suppress(OSError):
        state = copy / _FILE
        if state.exists() and contents(state)[:_MOST].decode() == _OWN:
            return 0.0
        # One that was broken off before it was whole has the mark alone.
        return max(each.stat().st_mtime for each in (state, copy / MARK) if each.exists())
    return 0.0


def is_whole(copy: Path) -> bool:
    """Whether all of it has come at least once."""
    return (copy / _FILE).exists()


def live_state(folder: Path) -> str:
    """The state of a run that went on when this copy was made; "" if it was over, or is no copy."""
    with suppress(OSError, ValueError):
        state = contents(folder / _FILE)[:_MOST].decode()
        return state if state in (QUEUED, *ACTIVE) else ""
    return ""


def goes_on(folder: Path) -> bool:
    """Whether a run is live here, or was when it was copied, so that more may come."""
    return is_live(folder) or bool(live_state(folder))


def forget(folder: Path) -> None:
    """This copy goes on by itself from now on."""
    if (folder / MARK).exists():
        (folder / _FILE).write_text(_OWN)
