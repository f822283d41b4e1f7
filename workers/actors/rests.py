"""Where one actor waited since it last ran, for its answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from artos.protocol.invocations import Rest

_NOTICED = 0.001
"""Seconds; shorter ones are not told."""


@dataclass
class Rests:
    """The times at which one actor was stopped, an image, or being made from it.

    Times are seconds of the caller's clock. In between it waited in memory.
    """

    _over: list[tuple[str, float, float]] = field(default_factory=list)
    _present: tuple[str, float] | None = None

    def begin(self, state: str, now: float) -> None:
        """It is in this state from now on; what was before is over."""
        self.end(now)
        self._present = state, now

    def end(self, now: float) -> None:
        """It waits in memory again."""
        if self._present is not None:
            self._over.append((*self._present, now))
        self._present = None

    def take_back(self) -> None:
        """It did not come into the state that was begun."""
        self._present = None

    def told(self, now: float) -> tuple[Rest, ...]:
        """All of them, once, by how long ago they began: the actor goes on now."""
        self.end(now)
        over, self._over = self._over, []
        return tuple(
            Rest(state, now - begun, ended - begun)
            for state, begun, ended in over
            if ended - begun >= _NOTICED
        )
