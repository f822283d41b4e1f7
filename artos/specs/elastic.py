"""How a workload's actors live on their node: plain data that travels in a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_type_hints

import msgspec

from artos.errors import Refused
from artos.specs.settings import convert

Park = Literal["auto", "memory", "freeze", "checkpoint", "never"]
"""Where idle actors wait."""

Prewarm = Literal["quantiles", "window", "off"]
"""Which forecast decides when to restore parked actors before they are needed; off: none."""

Start = Literal["auto", "clone", "fork", "cold"]
"""How actor processes start: as clones of a warm template, as its forks, or from scratch."""

WireDtype = Literal["float32", "bfloat16"]
"""How float32 weights travel to other nodes: as they are, or rounded to half the bytes."""


class Elastic(msgspec.Struct, frozen=True):
    """What may be set for the actors of a run, each with ``--set NAME=VALUE``."""

    park: Annotated[Park, "where actors wait"] = "auto"
    prewarm: Annotated[Prewarm, "forecast by which park=checkpoint restores ahead"] = "quantiles"
    start: Annotated[Start, "how actors' processes begin"] = "auto"
    pin: Annotated[bool, "keep a running actor on the CPU of its slot"] = True
    slots: Annotated[
        int, "actors that may run at once; 0: one per usable CPU, more if they are answered"
    ] = 0
    images: Annotated[str, "where images go: disk (the run's folder), tmpfs or a folder"] = "disk"
    image_mb: Annotated[int, "room for images in MB; 0, not on tmpfs: half of what is free"] = 0
    wire_dtype: Annotated[WireDtype, "how weights travel to other nodes"] = "float32"

    def changed(self, settings: Mapping[str, Any]) -> Elastic:
        """A copy with a user's settings, whose values are text as it was typed.

        Raises:
            Refused: there are invalid values; lists all faults.
        """
        values, kinds = msgspec.structs.asdict(self), get_type_hints(Elastic)
        faults: list[str] = []
        for name, value in settings.items():
            try:
                values[name] = convert(name, value, kinds[name])
            except Refused as refused:
                faults += refused.faults
        changed = Elastic(**values)
        if faults := [*faults, *changed.faults()]:
            raise Refused(faults)
        return changed

    @property
    def image_bytes(self) -> int:
        """Shared memory that images may take: those on a tmpfs."""
        return self.image_mb * 1_000_000 if self.images == "tmpfs" else 0

    def faults(self) -> list[str]:
        """Values out of range."""
        counts = {"slots": self.slots, "image_mb": self.image_mb}
        found = [f"{name} must be at least 0, not {n}" for name, n in counts.items() if n < 0]
        if not self.images.strip() or "\0" in self.images:
            found.append(f"images must be disk, tmpfs or a folder, not {self.images!r}")
        if self.images == "tmpfs" and not self.image_mb:
            found.append(
                "images=tmpfs needs image_mb, the MB of shared memory that are kept for them: else "
                "they would take what buffers and other runs count on"
            )
        return found


NAMES = frozenset(Elastic.__struct_fields__)
"""Settings of elastic actors, which every workload has."""
