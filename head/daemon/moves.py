"""What the next ``Placed`` message to a run says besides the places. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Moves:
    """Which nodes are gone, and why actors move."""

    gone: dict[str, None] = field(default_factory=dict)
    why: str = ""
