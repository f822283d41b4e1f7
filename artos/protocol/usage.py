"""What a workload holds and uses, as one record that every process counts with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from artos.errors import BadMessage


class _Starts(msgspec.Struct, frozen=True):
    """Starts of one kind: how many, and how long they took (seconds)."""

    count: int
    median_s: float
    p95_s: float
    """The 95th percentile."""


class Usage(msgspec.Struct, frozen=True):
    """What a workload costs: its actors by CPU, its learner by device (paper §5, resource time)."""

    cpu_seconds_held: float = 0.0
    """Seconds for which actors held slots."""
    cpu_seconds_used: float = 0.0
    """CPU seconds that these actors used."""
    device_seconds_held: float = 0.0
    """Seconds for which the learner had its device; not between updates that lease it each time."""
    device_seconds_used: float = 0.0
    """Seconds in which it computed there; without those in which a GPU's driver saw it idle."""
    parked_mb_seconds: float = 0.0
    """Memory that idle actors kept for themselves alone, or that of their images (MB·s)."""
    bytes_moved: int = 0
    """Experience and weights between nodes."""
    waits: dict[str, float] = {}
    """Seconds by what was waited for.

    Actors wait for a ``slot``, then for its ``process``, and for ``room``; the learner for its
    ``device``.
    """
    starts: dict[str, dict[str, int | float]] = {}
    """Number (``count``) and duration (``median_s``, ``p95_s``) of starts by kind.

    Kinds are cold, fork, clone, restore, prewarm, moved, state and thaw.
    """
    nodes: tuple[str, ...] = ()
    """On a cluster, the nodes that had actors of the run."""

    @property
    def bill(self) -> dict[str, Any]:
        """What is paid for: everything except ``starts`` and ``nodes``."""
        return {name: getattr(self, name) for name in BILL}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Usage:
        """Usage from plain data, as ``msgspec.structs.asdict`` gives it; missing fields are 0.

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
        kinds: dict[str, list[_Starts]] = {}
        for usage in usages:
            for kind, starts in msgspec.convert(usage.starts, dict[str, _Starts]).items():
                kinds.setdefault(kind, []).append(starts)
        return cls(
            **{name: sum(getattr(usage, name) for usage in usages) for name in _AMOUNTS},
            waits=added(usage.waits for usage in usages),
            starts={
                kind: {
                    "count": sum(each.count for each in starts),
                    "median_s": _median(starts),
                    "p95_s": max(each.p95_s for each in starts),
                }
                for kind, starts in kinds.items()
            },
            nodes=tuple(sorted({node for usage in usages for node in usage.nodes})),
        )


BILL = tuple(name for name in Usage.__struct_fields__ if name not in ("starts", "nodes"))
"""What is paid for, in the order in which it is shown."""
_AMOUNTS = tuple(name for name in BILL if name != "waits")


def flat(usage: Usage) -> dict[str, float]:
    """The bill without nesting: seconds waited are named ``waits/CAUSE``."""
    found = usage.bill
    waits = found.pop("waits")
    return found | {f"waits/{cause}": seconds for cause, seconds in waits.items()}


def nested(bill: Mapping[str, float]) -> dict[str, Any]:
    """A bill as ``Usage.bill`` gives it, from ``flat``."""
    waits = {k.removeprefix("waits/"): v for k, v in bill.items() if k.startswith("waits/")}
    return {k: v for k, v in bill.items() if not k.startswith("waits/")} | {"waits": waits}


def added(amounts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The sum of amounts for each name."""
    found: dict[str, float] = {}
    for each in amounts:
        for name, amount in each.items():
            found[name] = found.get(name, 0.0) + amount
    return found


def _median(starts: Iterable[_Starts]) -> float:
    ordered = sorted(starts, key=lambda each: each.median_s)
    left = sum(each.count for each in ordered) / 2
    for each in ordered:
        left -= each.count
        if left <= 0:
            return each.median_s
    return 0.0
