"""Template memory that came with clones from other nodes; removed once no clone needs it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from artos.errors import ArtosError
from workers.checkpoint.bundle import moved
from workers.checkpoint.criu.opened import opened_in
from workers.checkpoint.images import Image
from workers.checkpoint.template_memory import is_name


def unused(folder: Path, images: Iterable[Image], pids: Iterable[int]) -> list[Path]:
    """Files of such memory in a run's shared memory that no image and no process here needs."""
    here = folder.resolve()
    came = {str(path) for path in here.glob("*.memory") if is_name(path.stem)}
    if came:  # else skip the slow reading below
        for needed in (*map(_named_by, images), *map(_mapped_by, pids)):
            came.difference_update(needed)
    return sorted(map(Path, came))


def _named_by(image: Image) -> set[str]:
    try:
        places = moved(image)
        return {places.get(name, name) for name in opened_in(image.folder)}
    except (ArtosError, OSError):
        return set()  # an unreadable image cannot be restored


def _mapped_by(pid: int) -> set[str]:
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return set()  # the process has just ended
    return {line[line.index("/") :] for line in lines if "/" in line}
