"""What a run's actors use: the one record that every process of ours counts with."""

from __future__ import annotations

import msgspec


class Bill(msgspec.Struct, frozen=True):
    """What a run's actors cost. Seconds of CPU slots held and of CPU used, MB·s kept while parked.

    ``starts`` tells by kind (cold fork clone restore moved thaw) how many there were (``count``)
    and how long they took (``median_s``, ``p95_s``). On a cluster ``nodes`` had actors of the run,
    and ``bytes_on_wire`` of experience and weights went between them and the head.
    """

    starts: dict[str, dict[str, float]] = {}
    held_cpu_seconds: float = 0.0
    used_cpu_seconds: float = 0.0
    parked_mb_seconds: float = 0.0
    bytes_on_wire: int = 0
    nodes: tuple[str, ...] = ()
