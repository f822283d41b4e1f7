"""Whose code a run folder has this process run: its own user's, or that of the folder's sender.

A run is read by its own code, from the place that its ``config.json`` names, which comes first on
the import path. The sender of a folder chooses the place. Code that came with a submission is
trusted if this account's ARTOS wrote ``config.json`` (a seal in it shows that) and the code is just
what its archive holds. Without that seal nothing is called that the folder names, wherever it is
imported from: what is installed or one's own has functions, too, that no stranger should call with
arguments of his choice.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from artos.errors import Refused
from artos.runs import checkpoint, run_config
from artos.specs.named import ENV, ENV_ARGS, file_of, objects_named
from artos.specs.reference import Reference, package_of
from artos.system.account import root_user
from artos.system.archives import holds_just_its_archive
from artos.system.user_cache import user_state

_log = logging.getLogger(__name__)


def allow(
    run: Path,
    config: Mapping[str, Any],
    reference: Reference,
    *,
    trust: bool,
    moved: bool = False,
    env: str = "",
) -> None:
    """Say which code of the user's is run for the run in ``run``, if any is.

    ``config`` is what was read of its ``config.json``. ``moved``: the user has said where the code
    is, not whose it is. ``env`` is an environment that may be made besides the one in the settings.

    Raises:
        Refused: without ``trust``, if the code may be another user's, or if somebody else says
            what is called, even of what is installed; says why, and how to run it nevertheless.
    """
    own, files = run_config.is_own(config), files_of(reference)
    for code in () if trust or moved else files:
        if why := next(_doubts(code, reference, run.resolve(), own=own), ""):
            raise Refused([f"run {run} would run the code in {code}, {why}: {_TRUST}"])
    named = (*objects_named(reference.settings), *objects_named({ENV: env}))
    if _is_file(reference) and os.path.exists(files[0]):  # noqa: PTH110 (NUL)
        named = (reference.source, *named)
    if named and not (trust or own):
        raise Refused([f"run {run} would import and call {', '.join(named)}, {_strange()}"])
    if files:
        # Else users of ``artos.load`` would not see it.
        _log.warning("runs the code in %s", ", ".join(map(str, files)))


_TRUST = "look at it, then add --trust (in Python: trust=True)"
_STRANGE = (
    "as its config.json says, which bears no seal of this account: another one has written it, or "
    f"an earlier ARTOS, or this account has no place for its key ({{}}): {_TRUST}"
)
_OUTSIDE: Mapping[str, tuple[Any, ...]] = {
    "images": ("disk", "tmpfs"),
    "weights_folder": ("",),
    "server": ("",),
}
"""Settings that lead out of a run's folder, whatever they are, but for these values."""


def require_own_places(
    run: Path, config: Mapping[str, Any], settings: Mapping[str, Any], *, trust: bool
) -> None:
    """Refuse to go on with a run of another account whose settings, or links, lead out of it.

    Raises:
        Refused: it would write, or connect, where ``settings`` say, or links in its folder.
    """
    if trust or run_config.is_own(config):
        return
    others = {name: value for name, value in settings.items() if name not in (ENV, ENV_ARGS)}
    led = [
        f"{name}={value}"
        for name, value in others.items()
        if "/" in str(value) or value not in _OUTSIDE.get(name, (value,))
    ]
    led += [str(path) for path in run.rglob("*") if path.is_symlink()]
    if led:
        raise Refused([f"run {run} would use {', '.join(led)}, {_strange()}"])


def _strange() -> str:
    return _STRANGE.format(user_state() / "key")


def require_own_states(run: Path) -> None:
    """Refuse to unpickle what members of a run held, unless this user's ARTOS has saved it.

    Raises:
        Refused: another user may have saved it.
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


def files_of(reference: Reference) -> tuple[Path, ...]:
    """The files of a run's code, or the folder it is imported from; none if it is all installed."""
    if _is_file(reference):
        return (Path(reference.source.rpartition(":")[0]),)
    folder = Path(reference.folder)
    found = (file_of(each, folder) for each in objects_named(reference.settings))
    return (*filter(None, found),) or (folder,) if reference.folder else ()


def _is_file(reference: Reference) -> bool:
    """Whether the workload is in a file; if not, what its settings name comes from a folder."""
    return reference.source.rpartition(":")[0].endswith(".py")


def _doubts(code: Path, reference: Reference, run: Path, *, own: bool) -> Iterator[str]:
    """Why the code may be another user's."""
    code = Path(os.path.abspath(code))  # noqa: PTH100 (a link must be seen, not followed)
    place = code.resolve().parent if _is_file(reference) else Path(reference.folder).resolve()
    if not place.is_dir():
        return  # nothing can be imported from there
    for path in (code, code.resolve()):
        root = package_of(path)[1] if _is_file(reference) else Path(reference.folder)
        for each in (path, *path.parents):
            imported = each.is_relative_to(root) or each.is_relative_to(place)
            yield from _strangers(each, imported=imported)
    own_folders = []
    for find in (Path.home, Path.cwd):
        with suppress(OSError, RuntimeError):  # no home, or this folder was deleted
            own_folders.append(find().resolve())
    strange = ""
    if place.is_relative_to(run):
        strange = "which came with the run"
    elif not any(place.is_relative_to(own) for own in own_folders):
        strange = "which is neither in your home nor below this folder"
    if strange and not (own and holds_just_its_archive(place)):
        yield strange


def _strangers(path: Path, *, imported: bool) -> Iterator[str]:
    """Who else may replace ``path``, or what is in it."""
    try:
        there = path.lstat()
    except OSError:
        return
    if there.st_uid not in (os.geteuid(), root_user()):
        yield f"and {path} belongs to another user"
    # In a sticky folder others may make something new, but not replace what is there.
    if stat.S_ISLNK(there.st_mode) or (there.st_mode & stat.S_ISVTX and not imported):
        return
    if there.st_mode & stat.S_IWOTH:
        yield f"and everyone may write to {path}"
    if there.st_mode & stat.S_IWGRP and there.st_gid not in (os.getegid(), 0):
        yield f"and a group may write to {path}"
