"""Things that are closed when the ``with`` block that holds them ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """An object that is its own context manager: leaving the block always calls ``close``."""

    @abstractmethod
    def close(self) -> None:
        """Release everything that is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
