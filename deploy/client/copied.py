"""What a copy of a run's folder remembers of the run: its state when it was copied."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from artos.protocol.run_state import ACTIVE, QUEUED
from artos.system.regular_file import contents
from head.records.run_lock import is_live

_FILE = ".copied"
_MOST = 64


def remember(copy: Path, state: str) -> None:
    """Note the state in which the run was.

    Raises:
        OSError: it cannot be written.
    """
    (copy / _FILE).write_text(state)


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
    (folder / _FILE).unlink(missing_ok=True)
