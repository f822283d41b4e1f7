"""Finds and removes what a killed run leaves behind (``artos clean``).

Images of actors may take gigabytes on a disk, where no one would look for them. So a link in the
run's shared memory leads to them: the process that reaps that memory removes the images, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from artos.buffer.shm_folder import IMAGE_ROOM, IMAGES, PREFIX, holds_images, reap_orphans
from artos.errors import Refused
from artos.system import kept_weights, own_cpus, private_folder
from artos.system.locks import FileLock
from artos.system.shm import shm_root


def image_folder(memory: Path, where: str, home: Path, room: int = 0) -> Path:
    """Make the folder for the images of the run whose shared memory is ``memory``; returns it.

    ``where`` is ``disk`` (the folder is made in ``home``), ``tmpfs`` or a folder to make it in. On
    ``tmpfs`` so many bytes are kept free for them (``room``).

    Raises:
        Refused: it cannot be made there.
    """
    link = memory / IMAGES
    if where == "tmpfs":
        link.mkdir(mode=0o700)
        if room:
            (memory / IMAGE_ROOM).write_text(f"{room}")
        return link
    if faults := image_faults(where):
        raise Refused(faults)
    parent = home if where == "disk" else Path(where)
    folder = private_folder.fresh(parent.resolve(), f"{IMAGES}-")
    try:
        link.symlink_to(folder)
        folder.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise Refused([_no_place(parent, error.strerror or str(error))]) from error
    return folder


def image_faults(where: str) -> list[str]:
    """Why a folder that a user named for images cannot hold them; nothing is made."""
    folder = Path(where)
    if where in ("disk", "tmpfs"):
        return []
    if why := private_folder.planted(folder):
        return [_no_place(folder, why)]
    if not folder.exists():
        return []  # it will be made
    if not folder.is_dir():
        return [_no_place(folder, "Not a directory")]
    if why := private_folder.loose(folder):
        return [_no_place(folder, why)]
    return []


def _no_place(folder: Path, why: str) -> str:
    then = "set images= to a folder that only you can write to, or to tmpfs"
    return f"images cannot be kept in {folder}: {why}; {then}"


def remove_images(run: Path) -> list[Path]:
    """Remove the images in the folder of a run that is not live; returns what was removed."""
    return [path for path in _images_in(run) if private_folder.remove(path)]


def remove_unlinked_images(folder: Path) -> list[Path]:
    """Remove images in ``folder`` that no shared memory links to; returns what was removed.

    A machine that was started again has lost these links.
    """
    # A link is made before its images, so links are looked for after images.
    found = _images_in(folder)
    linked = {link.resolve() for link in shm_root().glob(f"{PREFIX}*/{IMAGES}")}
    unlinked = [images for images in found if images.resolve() not in linked]
    return [images for images in unlinked if private_folder.remove(images)]


def _images_in(folder: Path) -> list[Path]:
    return sorted(filter(holds_images, folder.glob(f"{IMAGES}-*")))


def clean(runs: Sequence[Path] = ()) -> list[Path]:
    """Remove the shared memory and images that killed runs left; returns what was removed.

    So is what they left of weights of language models in the user's cache (``kept_weights``).

    Images in ``runs`` are removed even if the shared memory that linked to them is gone, as it is
    when the machine or the container was started again.

    Raises:
        Refused: a folder holds no run, or a live one; nothing was removed.
    """
    with ExitStack() as locks:
        faults = []
        for run in runs:  # lock its folder as its owner would
            try:
                lock = FileLock.take(run / "run.lock", create=False)
            except OSError as error:
                why = error.strerror
                faults.append(f"there is no run in {run} ({why}): give the folder of one")
                continue
            if lock is None:
                faults.append(f"{run} is used by a live run: stop that first")
            else:
                locks.enter_context(lock)
        if faults:
            raise Refused(faults)
        images = (path for run in runs for path in remove_images(run))
        return [*reap_orphans(kept=True), *own_cpus.tidy(), *kept_weights.tidy(), *images]
