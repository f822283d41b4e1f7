"""What a run's actors use, as one record that every process counts with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from artos.errors import BadMessage


class _Starts(msgspec.Struct, frozen=True):
    """Starts of one kind: how many, median and 95th percentile of how long they took (seconds)."""

    count: int
    median_s: float
    p95_s: float


class Usage(msgspec.Struct, frozen=True):
    """What a run's actors cost. Seconds of CPU slots held and of CPU used, MB·s kept while parked.

    ``starts`` has the number (``count``) and duration (``median_s``, ``p95_s``) of starts by kind
    (cold, fork, clone, restore, moved, thaw). On a cluster, ``nodes`` are those that had actors of
    the run, and ``bytes_on_wire`` counts experience and weights between them and the head.
    """

    starts: dict[str, dict[str, int | float]] = {}
    held_cpu_seconds: float = 0.0
    used_cpu_seconds: float = 0.0
    parked_mb_seconds: float = 0.0
    bytes_on_wire: int = 0
    nodes: tuple[str, ...] = ()

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Usage:
        """From plain data, as ``msgspec.structs.asdict`` gives it; missing fields are 0.

        Raises:
            BadMessage: a field is of another type, or starts of a kind lack a field.
        """
        try:
            usage = msgspec.convert(dict(plain), cls)
            msgspec.convert(usage.starts, dict[str, _Starts])
        except msgspec.ValidationError as error:
            raise BadMessage(f"usage of a run: {error}") from error
        return usage

    @classmethod
    def total(cls, usages: Iterable[Usage]) -> Usage:
        """What several nodes cost together.

        For each kind of start, the median is that of the nodes' medians, each counted as often as
        its node has starts; the 95th percentile is the largest of the nodes'.
        """
        usages = [*usages]
        return cls(
            starts=_total_starts(usages),
            held_cpu_seconds=sum(usage.held_cpu_seconds for usage in usages),
            used_cpu_seconds=sum(usage.used_cpu_seconds for usage in usages),
            parked_mb_seconds=sum(usage.parked_mb_seconds for usage in usages),
            bytes_on_wire=sum(usage.bytes_on_wire for usage in usages),
            nodes=tuple(sorted({node for usage in usages for node in usage.nodes})),
        )


def _total_starts(usages: Iterable[Usage]) -> dict[str, dict[str, int | float]]:
    kinds: dict[str, list[_Starts]] = {}
    for usage in usages:
        for kind, starts in msgspec.convert(usage.starts, dict[str, _Starts]).items():
            kinds.setdefault(kind, []).append(starts)
    return {
        kind: {
            "count": sum(each.count for each in starts),
            "median_s": _median(starts),
            "p95_s": max(each.p95_s for each in starts),
        }
        for kind, starts in kinds.items()
    }


def _median(starts: Iterable[_Starts]) -> float:
    ordered = sorted(starts, key=lambda each: each.median_s)
    left = sum(each.count for each in ordered) / 2
    for each in ordered:
        left -= each.count
        if left <= 0:
            return each.median_s
    return 0.0
