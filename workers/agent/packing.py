"""Which rows travel compressed: those that are there sooner with LZ4 and a shorter way.

Decisions only: what LZ4 makes of a key and how fast the link is are told as they are measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SLOW = 125e6
"""Bytes a second that a link is taken to carry before that was measured: 1 Gbit/s."""
_LEAST = 1024  # bytes; of less there is nothing to gain
_TELLING = 256 << 10  # bytes whose way takes long enough to be timed
_KEY_LASTS, _LINK_LASTS = 1.0, 10.0  # seconds after which a measurement is made again
_WEIGHT = 0.25


@dataclass(slots=True)
class _Measured:
    """Of one key: bytes before by bytes after, bytes compressed a second, and when that was."""

    ratio: float
    speed: float
    at: float


@dataclass
class Packing:
    """Decides for each frame. ``enabled=False`` leaves everything as it is.

    Compressing, the way and unpacking are added up, as on machines without an idle core; unpacking
    is taken to be as fast as packing, and it is faster.
    """

    enabled: bool = True
    _keys: dict[str, _Measured] = field(init=False, repr=False, default_factory=dict)
    _pace: float = field(init=False, repr=False, default=0.0)
    _probed: float = field(init=False, repr=False, default=float("-inf"))

    @property
    def link(self) -> float:
        """Bytes a second that the link carries."""
        return 1 / self._pace if self._pace else SLOW

    def wants(self, key: str, size: int, now: float) -> bool:
        """Whether to compress ``size`` bytes of a key."""
        if not self.enabled or size < _LEAST:
            return False
        if size >= _TELLING and now - self._probed > _LINK_LASTS:
            self._probed = now  # what is compressed is too short to tell how fast the link is
            return False
        measured = self._keys.get(key)
        if measured is None or now - measured.at > _KEY_LASTS:
            return True
        return 2 / measured.speed + 1 / (measured.ratio * self.link) < 1 / self.link

    def packed(self, key: str, before: int, after: int, seconds: float, now: float) -> bool:
        """Bytes of a key were compressed in so many seconds; whether to send them like that.

        Best seconds of the processor: one that was taken away from us says nothing about LZ4.
        """
        self._keys[key] = _Measured(before / after, before / max(seconds, 1e-9), now)
        return after < before

    def crossed(self, size: int, seconds: float) -> None:
        """So many bytes took so long to arrive, counted from when those before them had."""
        if size >= _TELLING and seconds > 0:
            # A mean of times, not of rates: two answers that come together tell of no fast link.
            pace = seconds / size
            self._pace = pace if not self._pace else self._pace + _WEIGHT * (pace - self._pace)
