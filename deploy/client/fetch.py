"""Copies a run's folder, or what is new of it, from a head to this machine.

A copy that was broken off goes on where it was. A file takes its name once it is complete; those of
checkpoints do so together, the manifest last, so that what is here always loads.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

import msgspec

from artos.errors import DeadlineExceeded, Refused
from artos.protocol.run_state import OVER
from artos.protocol.views import RunView
from artos.runs.checkpoint import BEST, MANIFEST, SAVED
from artos.system.locks import FileLock
from artos.system.regular_file import opened
from deploy.client.checksums import note, remove_damaged
from deploy.client.copied import MARK, remember
from deploy.client.head_client import HeadClient
from head.records.summary_file import FILE

NUMBERS, RECORDS = "numbers", "records"
"""What the dashboard and other commands copy: what curves are drawn of, and all but weights."""
WHAT: Mapping[str, tuple[str, ...]] = {
    "all": ("",),
    "checkpoint": (f"{SAVED}/", f"{BEST}/", "config.json", "summary.json"),
    "curve": (
        "progress.csv", "episodes.csv", "evaluations.csv", "events/", "curve.png", "config.json",
        "summary.json",
    ),
    NUMBERS: ("progress.csv", "episodes.csv", "evaluations.csv", "config.json"),
    RECORDS: (
        "progress.csv", "episodes.csv", "evaluations.csv", "journal", "logs/", "config.json",
        "summary.json",
    ),
}  # fmt: skip
"""What may be asked for: beginnings of the paths of files."""
_GROW = (".csv", ".jsonl", ".log")
"""Files that are appended to; others are replaced."""
_OVERLAP = 4096
"""Bytes before the end of what is here that must be the same there before more is appended."""
_TRIES = 10
_OTHERS_SECONDS = 600.0
"""For which others may copy into a folder before this process gives up."""
_CHECKPOINTS, _EVENTS, _JOURNAL = (f"{SAVED}/", f"{BEST}/"), "events/", "journal"
_PART = ".part"

Files = Mapping[str, tuple[int, int]]


class Fetched(msgspec.Struct, frozen=True):
    """What was copied."""

    run: str
    folder: str
    state: str
    """That of the run when it was looked at last."""
    files: int = 0
    """Files that were not here, or not as they are there."""
    bytes: int = 0


def fetch(
    client: HeadClient, run: str, target: Path, what: str = "all", *, check: bool = True
) -> Fetched:
    """Copy what is new of a run into ``target``.

    To ``check`` reads all that is there already; what was damaged since it came is copied anew.

    Others that copy into it at the same time, such as a second dashboard, take turns.

    Raises:
        Refused: there is no such run, it is another user's, it has no files yet, or ``target``
            holds another one.
        NoHead, WrongKeys, DeadlineExceeded: as ``HeadClient.exchange``; or others took too long.
    """
    view = client.status(run)
    if not target.exists():
        client.files(view.name)  # who may not read it gets no folder
    with _claimed(target, view.name):
        return _fetched(client, view, target, what, check)


def progress(client: HeadClient, run: str, target: Path, what: str) -> tuple[int, int]:
    """How many bytes of a run are in ``target``, and how many there are; raises as ``fetch``."""
    there = _wanted(client.files(run), what)
    here = 0
    for name, (size, _) in there.items():
        sizes = [path.stat().st_size for path in (target / name, _part(target, name))
                 if path.exists()]  # fmt: skip
        here += min(size, max(sizes, default=0))
    return here, sum(size for size, _ in there.values())


def _fetched(client: HeadClient, view: RunView, target: Path, what: str, check: bool) -> Fetched:
    files, came = 0, Counter[str]()
    for _ in range(_TRIES):
        there = _wanted(every := client.files(view.name), what)
        missed = False
        # It is of the time before the run was resumed, also if that was killed.
        if view.state not in OVER or FILE not in every:
            there = {name: about for name, about in there.items() if name != FILE}
            (target / FILE).unlink(missing_ok=True)
        if check:
            remove_damaged(target, there)
            check = False
        for name in sorted(there, key=lambda name: name.startswith(_CHECKPOINTS)):
            if _is_here(target, name, there[name]):
                continue
            try:
                came[name] += _copy(client, view.name, target, name, there[name][1])
                files += 1
            except Refused:
                if name in client.files(view.name):
                    raise
                missed = True  # it has just been removed
        now = _wanted(client.files(view.name), what)
        # A journal that got long has become a part, which was not copied.
        missed |= _of(_JOURNAL, now).keys() != _of(_JOURNAL, there).keys()
        before, view = view, view if view.state in OVER else client.status(view.name)
        missed |= before.state not in OVER and view.state in OVER
        if not missed and _of(_CHECKPOINTS, now) == _of(_CHECKPOINTS, there):
            for checkpoint in _CHECKPOINTS:
                _complete(target, checkpoint, _of(checkpoint, there))
            remember(target, before.state)
            note(target, there, came)
            return Fetched(view.name, str(target), before.state, files, came.total())
        # It has been replaced meanwhile: what was copied of it may be of two checkpoints.
    both = f"a checkpoint and a journal of {view.name}"
    raise DeadlineExceeded(f"{both}, neither of which is replaced while it is copied", _TRIES)


def follow(
    client: HeadClient, run: str, target: Path, what: str, seconds: float,
    say: Callable[[Fetched], object],
) -> Fetched:  # fmt: skip
    """``fetch`` every so many ``seconds`` until the run is over; news are said as they come."""
    check = True
    while True:
        fetched = fetch(client, run, target, what, check=check)
        check = False
        if fetched.files:
            say(fetched)
        if fetched.state in OVER:
            return fetched
        time.sleep(seconds)


def _claimed(target: Path, run: str) -> FileLock:
    """Make the folder, and remember in it of which run it is a copy; nobody else copies into it."""
    mark = target / MARK
    try:
        target.mkdir(parents=True, exist_ok=True)
        # The mark is made before all others: where these are seen, it is there.
        if any(path != mark for path in target.iterdir()) and not mark.exists():
            raise Refused([f"{target} is not empty and no copy of a run: name another folder"])
        lock = FileLock.take(mark, seconds=_OTHERS_SECONDS)
        if lock is None:
            who = f"another process that copies run {run} into {target}"
            raise DeadlineExceeded(who, _OTHERS_SECONDS)
        if not (other := lock.read()):
            lock.write(run)
        elif other != run:
            lock.close()
            raise Refused([f"{target} is a copy of run {other}: name another folder"])
    except OSError as error:
        raise Refused([f"{target}: {error.strerror}"]) from error
    return lock


def _wanted(files: Files, what: str) -> Files:
    def is_within(name: str) -> bool:  # a head is not trusted with this machine's files
        return not name.startswith("/") and ".." not in PurePosixPath(name).parts

    wanted = WHAT[what]
    return {n: about for n, about in files.items() if n.startswith(wanted) and is_within(n)}


def _of(folders: str | tuple[str, ...], files: Files) -> Files:
    return {name: about for name, about in files.items() if name.startswith(folders)}


def _is_here(target: Path, name: str, about: tuple[int, int]) -> bool:
    # Parts of a checkpoint wait until all of it is here; others get their names at once.
    parts = [_part(target, name)] if name.startswith(_CHECKPOINTS) else []
    for path in (target / name, *parts):
        try:
            found = path.stat()
        except FileNotFoundError:
            continue
        if (found.st_size, found.st_mtime_ns) == about:
            return True
    return False


def _part(target: Path, name: str) -> Path:
    """Where a file is until it is complete."""
    path = target / name
    return path.with_name(f".{path.name}{_PART}")


def _copy(client: HeadClient, run: str, target: Path, name: str, changed: int) -> int:
    """Copy a file; returns how many bytes came. Of one that grows, only the rest comes.

    One that was written anew is another file here, too, as those who read it on must notice.
    """
    path, part = target / name, _part(target, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    grows = name.endswith(_GROW) or name.startswith(_EVENTS)
    rest = _rest(client, run, name, path) if grows and path.exists() else None
    into = path if rest or (grows and not path.exists()) else part
    if not into.exists():
        into.touch()
    found, moved = into.stat(), 0
    # A part is of the file that is there now if it has its time.
    start = found.st_size if into is path or found.st_mtime_ns == changed else 0
    try:
        with opened(into, "r+b") as file:
            if start < found.st_size:  # which would change its time
                file.truncate(start)
            file.seek(start)
            while True:
                data, about = rest or client.file(run, name, start + moved)
                rest = None
                if not grows and about[1] != changed:  # replaced: from the beginning
                    start, moved, changed = 0, 0, about[1]
                    file.truncate(0)
                    file.seek(0)
                    continue
                changed = about[1]
                file.write(data)
                file.flush()
                os.utime(into, ns=(changed, changed))  # so that it goes on if we are killed
                moved += len(data)
                if not data or start + moved >= about[0]:
                    break
    finally:
        os.utime(into, ns=(changed, changed))
    if into is part and not name.startswith(_CHECKPOINTS):
        part.replace(path)
    return moved


def _rest(
    client: HeadClient, run: str, name: str, path: Path
) -> tuple[bytes, tuple[int, int]] | None:
    """What comes after what is here of a file that grows; None if that is not its beginning."""
    before = max(0, path.stat().st_size - _OVERLAP)
    data, about = client.file(run, name, before)
    with opened(path) as file:
        file.seek(before)
        here = file.read()
    return (data[len(here) :], about) if data.startswith(here) else None


def _complete(target: Path, checkpoint: str, mine: Files) -> None:
    """Give the files of a checkpoint their names, the manifest last, and remove older ones."""
    if not mine:
        return
    manifest = f"{checkpoint}{MANIFEST}"
    for name in sorted(mine, key=lambda name: name == manifest):
        if (part := _part(target, name)).exists():
            part.replace(target / name)
    for path in (target / checkpoint).rglob("*"):
        if path.is_file() and str(path.relative_to(target)) not in mine:
            path.unlink()
