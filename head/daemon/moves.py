"""What the next ``Placed`` message to a run says besides the places. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Moves:
    """Which nodes are gone, and why actors move."""

    gone: dict[str, None] = field(default_factory=dict)
    why: str = ""
    relief: bool = False
    """Whether actors may move because other nodes are less crowded, not just because they must."""

    @property
    def must_be_told(self) -> bool:
        """Whether the run hears of it even if all actors stay where they are."""
        return bool(self.gone or self.why)
