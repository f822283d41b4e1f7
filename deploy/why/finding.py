"""What holds a run up, and what to do about it."""

from __future__ import annotations

import msgspec

_OF_COSTLY = 0.7


class Finding(msgspec.Struct, frozen=True):
    """A bottleneck of a run."""

    bottleneck: str
    gain: float
    """How many times as fast the run should be with ``advice``."""
    figure: str
    """The figures that show it, in words."""
    advice: tuple[str, ...]
    """Flags of the command, or lines of files, to set, the best first."""
    costs: bool = False
    """Whether it takes more processes, and so CPUs and memory that others may want."""

    @property
    def worth(self) -> float:
        """By which findings are ordered: a gain that costs nothing is worth more."""
        return 1 + (self.gain - 1) * (_OF_COSTLY if self.costs else 1.0)
