"""What a run's actors use: one record, with which every process counts."""

from __future__ import annotations

import msgspec


class Bill(msgspec.Struct, frozen=True):
    """What a run's actors cost. Seconds of CPU slots held and of CPU used, MB·s kept while parked.

    ``starts`` has the number (``count``) and duration (``median_s``, ``p95_s``) of starts by kind
    (cold fork clone restore moved thaw). On a cluster, ``nodes`` are those that had actors of the
    run, and ``bytes_on_wire`` counts experience and weights between them and the head.
    """

    starts: dict[str, dict[str, float]] = {}
    held_cpu_seconds: float = 0.0
    used_cpu_seconds: float = 0.0
    parked_mb_seconds: float = 0.0
    bytes_on_wire: int = 0
    nodes: tuple[str, ...] = ()
