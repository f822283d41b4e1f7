"""The folder of each run of a sweep: what is there from before, and what was submitted for it."""

from __future__ import annotations

import itertools
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from artos.errors import RunExists
from artos.system.durable import write_durably
from artos.system.regular_file import contents
from deploy.api.running import Result
from deploy.client.copied import MARK
from head.records import summary_file
from head.records.run_lock import is_live

_NOTE = ".submitted"


def done_before(place: Path) -> Result | None:
    """The result of a run that is there already, if it is done."""
    found = summary_file.read(place)
    return Result(place, found[0]) if found and found[1].outcome == "done" else None


def room(place: Path) -> Path:
    """The folder of a run that is repeated: what an earlier one has left goes beside it.

    Raises:
        RunExists: the earlier one is live.
    """
    if is_live(place):
        raise RunExists(str(place), live=True)
    if place.exists():
        others = (place.with_name(f"{place.name}.{number}") for number in itertools.count(1))
        place.rename(next(other for other in others if not other.exists()))
    return place


def room_for_copy(place: Path, run: str) -> Path:
    """The folder that run is copied into: what is no copy of it goes beside it, as in ``room``."""
    with suppress(FileNotFoundError, NotADirectoryError):
        if contents(place / MARK).decode(errors="replace") == run:
            return place
    return room(place)


def submitted(place: Path) -> str:
    """The run that was submitted for that folder, if there is more to be had of it; else ""."""
    with suppress(FileNotFoundError):
        return contents(_note(place)).decode(errors="replace")
    return ""


def note_submitted(place: Path, run: str) -> None:
    """Have ``submitted`` know it from now on, also if this process is killed."""
    write_durably(_note(place), run.encode())


def forget_submitted(place: Path) -> None:
    """There is no more to be had of the run that was submitted for that folder."""
    _note(place).unlink(missing_ok=True)


def forget_all(folder: Path) -> None:
    """Forget all that was submitted for the sweep in that folder."""
    for note in folder.glob(f".*{_NOTE}"):
        note.unlink(missing_ok=True)


def begun(place: Path) -> bool:
    """Whether the run of that folder was begun, or submitted."""
    return place.exists() or _note(place).exists()


def _note(place: Path) -> Path:
    # Hidden, as sweeps/lr/* are runs, and short, as a name may be as long as a file's can.
    return place.with_name(f".{sha256(place.name.encode()).hexdigest()[:16]}{_NOTE}")
