"""What the executors of a run report: which actors wait for a slot, and the usage so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from artos.protocol.steering import ExecutorNews
from artos.protocol.usage import Usage
from artos.specs.members import Member


@dataclass
class _Reported:
    """The last report of an executor."""

    usage: Usage = field(default_factory=Usage)
    waits_for_slot: frozenset[Member] = frozenset()
    criu: str = ""
    warm: bool = False
    faults: int = 0
    malformed: int = 0


class NodeUsage:
    """Which executors are up, and the usage of all executors so far."""

    def __init__(self) -> None:
        self._open: dict[str, _Reported] = {}
        self._closed: list[Usage] = []
        self._seen: dict[str, None] = {}
        self.ends: dict[str, str] = {}
        """Why the executor of a node ended, for nodes that no longer have one."""
        self._faults = self._malformed = 0  # of executors that are gone

    def __contains__(self, node: str) -> bool:
        return node in self._open

    def is_warm(self, node: str) -> bool:
        """Whether actors can be at work on that node at once."""
        return node in self._open and self._open[node].warm

    @property
    def open(self) -> tuple[str, ...]:
        """Nodes with an executor that is up."""
        return tuple(self._open)

    @property
    def seen(self) -> tuple[str, ...]:
        """Nodes that ever had an executor whose actors could be at work."""
        return tuple(self._seen)

    @property
    def faults(self) -> int:
        """Faults that all executors survived so far."""
        return self._faults + sum(executor.faults for executor in self._open.values())

    @property
    def malformed(self) -> int:
        """Messages that all executors refused so far."""
        return self._malformed + sum(executor.malformed for executor in self._open.values())

    def begin(self, node: str, criu: str = "", *, warm: bool = True) -> None:
        """An executor is up; ``criu`` is the node's version of CRIU, "" if it makes no images.

        Called again once it is ``warm``.
        """
        executor = self._open.setdefault(node, _Reported())
        executor.criu, executor.warm = criu, warm
        if warm:
            self._seen[node] = None
        self.ends.pop(node, None)

    def images_fit(self, source: str, target: str) -> bool:
        """Whether an image of one node may be restored on the other, as far as is known."""
        made = self._open[source].criu if source in self._open else ""
        return bool(made) and (target not in self._open or self._open[target].criu == made)

    def news(self, node: str, news: ExecutorNews) -> None:
        """The node's executor reported.

        Raises:
            BadMessage: the usage in it is malformed.
        """
        executor = self._open[node]
        executor.usage, executor.waits_for_slot = (
            Usage.of(news.usage),
            frozenset(news.waits_for_slot),
        )
        executor.faults, executor.malformed = news.faults, news.malformed

    def last_usage(self, node: str, usage: Mapping[str, Any]) -> None:
        """The node's executor closes and reports its usage for the last time.

        Raises:
            BadMessage: ``usage`` is malformed.
        """
        self._open[node].usage = Usage.of(usage)

    def end(self, node: str, why: str) -> None:
        """The node's executor is gone; its last usage stays counted."""
        if (executor := self._open.pop(node, None)) is not None:
            self.ends[node] = why
            self._closed.append(executor.usage)
            self._faults += executor.faults
            self._malformed += executor.malformed

    def waits_for_slot(self, node: str, member: Member) -> bool:
        """Whether the actor's invocations wait on that node for a slot or for weights."""
        return node in self._open and member in self._open[node].waits_for_slot

    def usage(self) -> Usage:
        """What all actors used so far, on all nodes."""
        return Usage.total([*self._closed, *(executor.usage for executor in self._open.values())])
