"""Whose code a run folder has this process run: its own user's, or somebody's who sent the folder.

A run is read by its own code, from the place that its ``config.json`` names, which comes first on
the import path. Whoever hands a folder over chooses the place.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from artos import checkpoint
from artos.errors import Refused
from artos.reference import Reference


def require_trust(run: Path, reference: Reference) -> None:
    """Refuse to run code that may not be the user's own.

    Raises:
        Refused: the code of the run in ``run`` is not in a folder of the user's; says why, and how
            to run it all the same.
    """
    place = code_of(reference)
    if place is None:
        return
    if why := next(_doubts(place.resolve(), run.resolve()), ""):
        raise Refused(
            [
                f"run {run} would run the code in {place}, {why}: look at it, then add --trust "
                "(in Python: trust=True)"
            ]
        )


def require_own_states(run: Path) -> None:
    """Refuse to unpickle what members of a run held, unless this user's ARTOS has saved it.

    Raises:
        Refused: somebody else may have.
        CheckpointFault: there is no checkpoint, or it is damaged.
    """
    manifest = checkpoint.read_manifest(run / "checkpoint")
    if checkpoint.are_foreign_states(manifest):
        raise Refused(
            [
                f"run {run} would unpickle checkpoint/{manifest.states}, which runs what it "
                "holds, and which no ARTOS of this account has saved: leave it out by "
                "--set checkpoint=model, or add --trust"
            ]
        )


def code_of(reference: Reference) -> Path | None:
    """The folder that the code of a run is imported from; None: only what is installed is."""
    source, _, _ = reference.source.rpartition(":")
    if source.endswith(".py"):
        return Path(source).parent
    return Path(reference.folder) if reference.folder else None


def _doubts(place: Path, run: Path) -> Iterator[str]:
    """Why the code in ``place`` may be somebody else's."""
    try:
        there = place.stat()
    except OSError:
        return  # nothing can be imported from there
    if there.st_uid not in (os.geteuid(), 0):
        yield "which belongs to another user"
    if there.st_mode & stat.S_IWOTH:
        yield "which everybody may write to"
    if there.st_mode & stat.S_IWGRP and there.st_gid not in (os.getegid(), 0):
        yield "which a group may write to"
    if place.is_relative_to(run):
        yield "which came with the run"
    if not any(place.is_relative_to(own) for own in _own_folders()):
        yield "which is neither in your home nor below this folder"


def _own_folders() -> Iterator[Path]:
    for find in (Path.home, Path.cwd):
        try:
            yield find().resolve()
        except (OSError, RuntimeError):  # no home, or this folder is gone
            continue
