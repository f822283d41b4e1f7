"""The CRIU driver: dumps processes to images and restores them, without waiting.

Each request goes to a CRIU process of its own (``criu swrk``), as in CRIU's own library: only then
can the restored process be our child, inherit files, and be restored under ``numactl``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from artos.clock import Clock, SystemClock
from artos.errors import CriuUnavailable
from workers.checkpoint.criu.find import find_criu, version_of
from workers.checkpoint.criu.operation import Operation, Outcome
from workers.checkpoint.criu.options import rpc
from workers.checkpoint.criu.tasks import DumpTask, RestoreTask
from workers.checkpoint.criu.unavailable import NoCriu
from workers.checkpoint.images import Image

__all__ = ["Criu", "NoCriu", "Operation", "Outcome", "criu_here"]

_LIMIT = 30.0


class Criu:
    """Starts dumps and restores; several may be under way at once.

    Call it from the main thread: a restored process dies with the *thread* that asked for it.
    ``limit`` is how many seconds one request may take before CRIU is taken for hung.
    """

    def __init__(self, binary: Path, clock: Clock | None = None, limit: float = _LIMIT) -> None:
        self._binary, self._clock, self._limit = binary, clock or SystemClock(), limit

    @property
    def version(self) -> str:
        """CRIU's version, for the facts of an image."""
        return ".".join(map(str, version_of(self._binary)))

    def dump(self, pid: int, image: Image, *, stays: bool = False) -> Operation:
        """Dump the process into a partial image; afterwards it ends, or goes on if it ``stays``.

        After a success the image is still to be sealed; after a failure it has been abandoned.

        Raises:
            CheckpointRefused: CRIU cannot even be started; the process runs on.
        """
        task = DumpTask(pid, image, stays=stays)
        return Operation(task, task.start([str(self._binary)]), self._clock, self._limit)

    def restore(
        self,
        image: Image,
        inherit: Mapping[str, int],
        prefix: Sequence[str] = (),
        shared: Collection[str] = (),
    ) -> Operation:
        """Make a process from the image, as a child of this process.

        ``inherit`` maps the path of a file as it was at the dump to the open descriptor that takes
        its place; the caller may close it at once. ``prefix`` is a command that runs CRIU, such as
        ``numactl --physcpubind=1``: affinity is inherited, not part of the image. The files that
        are ``shared`` may be given to other processes meanwhile.

        Raises:
            ImageUnusable: the image is damaged or does not fit this host; nothing was started.
            RestoreFailed: CRIU cannot even be started.
        """
        image.check(self.version)
        task = RestoreTask(image, inherit, shared)
        worker = task.start([*prefix, str(self._binary)])
        return Operation(task, worker, self._clock, self._limit)

    def __repr__(self) -> str:
        return f"<Criu {self._binary} {self.version}>"


def criu_here(clock: Clock | None = None) -> Criu | NoCriu:
    """The driver for this host."""
    try:
        rpc()
        return Criu(find_criu(), clock)
    except CriuUnavailable as why:
        return NoCriu(why)
