"""What the sites of a run say about themselves: who waits for a slot there, what it all costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from artos.errors import BadMessage
from artos.protocol.wire import SiteNews
from artos.usage import Bill


class _Starts(msgspec.Struct, frozen=True):
    """Starts of one kind on one node."""

    count: int
    median_s: float
    p95_s: float


class _Bill(msgspec.Struct, frozen=True):
    """The fields of ``Bill`` that a site fills in."""

    starts: dict[str, _Starts] = {}
    held_cpu_seconds: float = 0.0
    used_cpu_seconds: float = 0.0
    parked_mb_seconds: float = 0.0


@dataclass
class _Site:
    """What a site said last."""

    bill: _Bill = field(default_factory=_Bill)
    held_back: frozenset[int] = frozenset()
    criu: str = ""
    faults: int = 0
    malformed: int = 0


class NodeBooks:
    """Which sites are up, and the costs of all there ever were.

    ``ends`` says why sites ended, of each node that has none any more.
    """

    def __init__(self) -> None:
        self._open: dict[str, _Site] = {}
        self._closed: list[_Bill] = []
        self._seen: dict[str, None] = {}
        self.ends: dict[str, str] = {}
        self._faults = self._malformed = 0  # at those that are gone

    def __contains__(self, node: str) -> bool:
        return node in self._open

    @property
    def open(self) -> tuple[str, ...]:
        """Nodes with a site that is up."""
        return tuple(self._open)

    @property
    def seen(self) -> tuple[str, ...]:
        """Nodes that ever had one."""
        return tuple(self._seen)

    @property
    def faults(self) -> int:
        """What all sites survived so far."""
        return self._faults + sum(site.faults for site in self._open.values())

    @property
    def malformed(self) -> int:
        """Messages that all sites refused so far."""
        return self._malformed + sum(site.malformed for site in self._open.values())

    def begin(self, node: str, criu: str = "") -> None:
        """A site is up; ``criu`` is the version that makes images there, "" if none can."""
        self._open[node] = _Site(criu=criu)
        self._seen[node] = None
        self.ends.pop(node, None)

    def images_fit(self, source: str, target: str) -> bool:
        """Whether an image made on one node may be of use on the other, as far as is known."""
        made = self._open[source].criu if source in self._open else ""
        return bool(made) and (target not in self._open or self._open[target].criu == made)

    def news(self, node: str, news: SiteNews) -> None:
        """It reported.

        Raises:
            BadMessage: its bill is none.
        """
        site = self._open[node]
        site.bill, site.held_back = _decoded(news.bill), frozenset(news.held_back)
        site.faults, site.malformed = news.faults, news.malformed

    def last_bill(self, node: str, bill: Mapping[str, Any]) -> None:
        """It closes, and this is what it cost.

        Raises:
            BadMessage: that is no bill.
        """
        self._open[node].bill = _decoded(bill)

    def end(self, node: str, why: str) -> None:
        """It is gone; what it cost stays as it said last."""
        if (site := self._open.pop(node, None)) is not None:
            self.ends[node] = why
            self._closed.append(site.bill)
            self._faults += site.faults
            self._malformed += site.malformed

    def waits_for_slot(self, node: str, member: int) -> bool:
        """Whether what the actor was asked to do waits there for a slot, or for weights."""
        return node in self._open and member in self._open[node].held_back

    def bill(self) -> Bill:
        """What all actors cost so far, wherever they were."""
        bills = [*self._closed, *(site.bill for site in self._open.values())]
        return Bill(
            starts=_starts(bills),
            held_cpu_seconds=sum(bill.held_cpu_seconds for bill in bills),
            used_cpu_seconds=sum(bill.used_cpu_seconds for bill in bills),
            parked_mb_seconds=sum(bill.parked_mb_seconds for bill in bills),
        )


def _decoded(bill: Mapping[str, Any]) -> _Bill:
    try:
        return msgspec.convert(dict(bill), _Bill)
    except msgspec.ValidationError as error:
        raise BadMessage(f"a bill: {error}") from error


def _starts(bills: Iterable[_Bill]) -> dict[str, dict[str, float]]:
    """Starts of all nodes by kind; the median is that of the nodes' medians, the p95 the worst."""
    kinds: dict[str, list[_Starts]] = {}
    for bill in bills:
        for kind, starts in bill.starts.items():
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
    """The median of the nodes' medians, each as often as it has starts."""
    ordered = sorted(starts, key=lambda each: each.median_s)
    left = sum(each.count for each in ordered) / 2
    for each in ordered:
        left -= each.count
        if left <= 0:
            return each.median_s
    return 0.0
