"""What every way of the weights is, and how one is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Kind = Literal["block", "files", "http"]
Floats = NDArray[np.float32]
Layout = tuple[tuple[str, tuple[int, ...]], ...]
_CHECK_SECONDS = 5.0


class Channel:
    """Versions go from the learner, which sends each, to actors, which receive the newest.

    That a version is there is told to actors by the run, whichever way its weights take.
    """

    def send(self, version: int, params: Floats) -> None:
        """Pass on the weights (N,) of a version that was published; once more changes nothing."""
        raise NotImplementedError

    def receive(self, version: int, params: Floats) -> tuple[int, Floats]:
        """What to act with where ``version`` was published: it, or a newer one, and which.

        ``params`` are those of the run's memory. What is returned stays as it is until the next
        call.

        Raises:
            DeadlineExceeded: it did not come.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Way:
    """Which way the weights of a run take, as users say it."""

    kind: Kind = "block"
    folder: str = ""
    """Where ``files`` and ``http`` have versions: a folder of all machines that take part."""
    server: str = ""
    """The address of the server of ``http``."""
    model: str = ""
    """What it calls its model."""

    def faults(self) -> Iterator[str]:
        """What is wrong with it; a server is asked whether it is there."""
        if self.kind not in get_args(Kind):
            yield f"weights must be one of {', '.join(get_args(Kind))}, not {self.kind!r}"
            return
        if self.folder and self.kind == "block":
            yield _UNUSED.format("weights_folder", self.folder, "files or weights=http")
        if self.server and self.kind != "http":
            yield _UNUSED.format("server", self.server, "http")
        if self.kind != "block" and not Path(self.folder).is_absolute():
            yield _FOLDER.format(self.kind, self.folder)
        if self.kind != "http":
            return
        from artos.transport.weights.vllm import VllmServer  # noqa: PLC0415  # few runs have one

        yield from VllmServer(self.server, self.model, _CHECK_SECONDS).faults()

    def opened(self, layout: Layout, generation: int, patience: float) -> Channel:
        """This end of it, for weights of this ``layout``.

        ``generation`` is how often the run was resumed: versions of before are none of its own.
        ``patience`` is in seconds.
        """
        if self.kind == "block":
            from artos.transport.weights.block import Block  # noqa: PLC0415

            return Block()
        from artos.transport.weights.files import Files  # noqa: PLC0415

        files = Files(Path(self.folder), layout, generation, patience)
        if self.kind == "files":
            return files
        from artos.transport.weights.http import Served  # noqa: PLC0415
        from artos.transport.weights.vllm import VllmServer  # noqa: PLC0415

        return Served(files, VllmServer(self.server, self.model, patience), patience)


_UNUSED = "{}={} is of no use here: leave it out, or add weights={}"
_FOLDER = (
    "weights={} goes by way of a folder, and weights_folder={!r} is none: write a path from the "
    "root, of a folder that all machines of the run have, e.g. weights_folder=/shared/texts"
)
