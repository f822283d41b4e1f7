"""An actor's image, and the dump or restore that is under way."""

from __future__ import annotations

from dataclasses import dataclass

from workers.checkpoint.checkpointer import Shot
from workers.checkpoint.criu.driver import Operation
from workers.checkpoint.images import Image


@dataclass(kw_only=True)
class ImageWork:
    """The image of one actor: there, being made, or being turned into a process."""

    image: Image | None = None
    shot: Shot | None = None
    """The dump under way."""
    revival: Operation | None = None
    """The restore under way; None if there is none, or if the image cannot be used."""
    refused: str = ""
    """Why no image could be taken since the actor last ran."""
    refusals: int = 0
    """How often in a row that failed."""
    expected: float | None = None
    """Since when it is awaited from another node; None once it has come."""
    lost: str = ""
    """Why its image could not be used."""

    @property
    def operation(self) -> Operation | None:
        """The dump or restore that is under way."""
        return self.revival if self.shot is None else self.shot.operation

    def note_refusal(self, why: str) -> None:
        """Note why a dump failed, or could not even be begun."""
        self.refused = why
        self.refusals += 1

    def take_image(self) -> Image | None:
        """Hand over the image to be removed; there is none afterwards."""
        image, self.image = self.image, None
        return image

    def end_arrival(self, now: float) -> float | None:
        """Seconds since the actor was expected, once; None if it was not expected (any more)."""
        expected, self.expected = self.expected, None
        return None if expected is None else now - expected

    def call_off(self) -> Operation | None:
        """Hand over the dump or restore that is under way, if any, to be cancelled."""
        operation, self.shot, self.revival = self.operation, None, None
        return operation
