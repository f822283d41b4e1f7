"""What the next ``Placed`` message to a run says besides the places. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass(slots=True)
class Moves:
    """Which nodes are gone, and why actors move."""

    gone: dict[str, None] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    """Nodes on which the run's executor ended by itself, and why."""
    why: str = ""
    relief: bool = False
    """Whether actors may move because other nodes are less crowded, not just because they must."""

    def settle(self, nodes: Collection[str]) -> None:
        """The run has actors on these nodes: elsewhere no executor that ended is opened again."""
        for node in self.ended.keys() - nodes:
            self.gone[node] = None
            self.why = self.why or self.ended[node]

    @property
    def must_be_told(self) -> bool:
        """Whether the run hears of it even if all actors stay where they are."""
        return bool(self.gone or self.why)
