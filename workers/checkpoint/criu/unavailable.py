"""The driver for hosts without CRIU: the same calls, each refused with the reason."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn

from artos.errors import CriuUnavailable
from workers.checkpoint.images import Image


class NoCriu:
    """Stands in for ``Criu``; its methods raise ``CriuUnavailable``, which says why."""

    def __init__(self, why: CriuUnavailable) -> None:
        self.why = why

    @property
    def version(self) -> str:
        """ "": there is no CRIU."""
        return ""

    def dump(self, pid: int, image: Image, *, stays: bool = False) -> NoReturn:
        """Refuse the dump.

        Raises:
            CriuUnavailable: always; nothing was written, the process runs on.
        """
        del pid, stays
        image.abandon()
        raise self.why

    def restore(
        self,
        image: Image,
        inherit: Mapping[str, int],
        prefix: Sequence[str] = (),
        shared: Collection[str] = (),
    ) -> NoReturn:
        """Refuse the restore.

        Raises:
            CriuUnavailable: always.
        """
        del image, inherit, prefix, shared
        raise self.why
