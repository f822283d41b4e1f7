"""What the executors of a run report: which actors wait for a slot there, what it all costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from artos.protocol.steering import ExecutorNews
from artos.usage import Usage


@dataclass
class _Reported:
    """What an executor said last."""

    usage: Usage = field(default_factory=Usage)
    waits_for_slot: frozenset[int] = frozenset()
    criu: str = ""
    faults: int = 0
    malformed: int = 0


class NodeUsage:
    """Which executors are up, and the costs of all there ever were.

    ``ends`` says why executors ended, of each node that has none any more.
    """

    def __init__(self) -> None:
        self._open: dict[str, _Reported] = {}
        self._closed: list[Usage] = []
        self._seen: dict[str, None] = {}
        self.ends: dict[str, str] = {}
        self._faults = self._malformed = 0  # at those that are gone

    def __contains__(self, node: str) -> bool:
        return node in self._open

    @property
    def open(self) -> tuple[str, ...]:
        """Nodes with an executor that is up."""
        return tuple(self._open)

    @property
    def seen(self) -> tuple[str, ...]:
        """Nodes that ever had one."""
        return tuple(self._seen)

    @property
    def faults(self) -> int:
        """What all executors survived so far."""
        return self._faults + sum(executor.faults for executor in self._open.values())

    @property
    def malformed(self) -> int:
        """Messages that all executors refused so far."""
        return self._malformed + sum(executor.malformed for executor in self._open.values())

    def begin(self, node: str, criu: str = "") -> None:
        """An executor is up; ``criu`` is the version that makes images there, "" if none can."""
        self._open[node] = _Reported(criu=criu)
        self._seen[node] = None
        self.ends.pop(node, None)

    def images_fit(self, source: str, target: str) -> bool:
        """Whether an image made on one node may be of use on the other, as far as is known."""
        made = self._open[source].criu if source in self._open else ""
        return bool(made) and (target not in self._open or self._open[target].criu == made)

    def news(self, node: str, news: ExecutorNews) -> None:
        """It reported.

        Raises:
            BadMessage: its bill is none.
        """
        executor = self._open[node]
        executor.usage, executor.waits_for_slot = (
            Usage.of(news.usage),
            frozenset(news.waits_for_slot),
        )
        executor.faults, executor.malformed = news.faults, news.malformed

    def last_bill(self, node: str, usage: Mapping[str, Any]) -> None:
        """It closes, and this is what it cost.

        Raises:
            BadMessage: that is no bill.
        """
        self._open[node].usage = Usage.of(usage)

    def end(self, node: str, why: str) -> None:
        """It is gone; what it cost stays as it said last."""
        if (executor := self._open.pop(node, None)) is not None:
            self.ends[node] = why
            self._closed.append(executor.usage)
            self._faults += executor.faults
            self._malformed += executor.malformed

    def waits_for_slot(self, node: str, member: int) -> bool:
        """Whether what the actor was asked to do waits there for a slot, or for weights."""
        return node in self._open and member in self._open[node].waits_for_slot

    def usage(self) -> Usage:
        """What all actors cost so far, wherever they were."""
        return Usage.total([*self._closed, *(executor.usage for executor in self._open.values())])
