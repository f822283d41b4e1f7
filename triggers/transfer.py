"""Sits on a worker's cache buffer and ships rows to the replay buffer, stage after stage."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from artos.protocol.invocations import Claim
from triggers.base import Firing, Trigger
from triggers.events import Began, Committed, Event
from triggers.verify.supply import Supply


@dataclass
class TransferTrigger(Trigger):
    """``TransferTrigger(keys, condition)`` of paper §4.2.

    ``keys`` is one group of data keys or several. Several groups are shipped one after the other,
    each as a firing of its own (the dual-stage pipeline). It fires for an actor when ``size``
    rows of all keys are committed, or, with ``condition``, for everything committed when that
    trigger fires. On one machine a transfer moves a cursor and no bytes.
    """

    keys: tuple[tuple[str, ...], ...] | tuple[str, ...]
    size: int = 1
    condition: Trigger | None = None
    _supplies: dict[int, Supply] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    _queue: deque[Firing] = field(init=False, repr=False, compare=False, default_factory=deque)

    def __post_init__(self) -> None:
        keys = (self.keys,) if isinstance(self.keys, str) else self.keys
        self.keys = tuple(key if isinstance(key, str) else tuple(key) for key in keys)  # type: ignore[assignment]

    def stages(self) -> tuple[tuple[str, ...], ...]:
        """The groups of keys in the order in which they are shipped."""
        if all(isinstance(key, str) for key in self.keys):
            return (tuple(str(key) for key in self.keys),)
        return tuple((key,) if isinstance(key, str) else key for key in self.keys)

    def check(self, event: Event, now: float) -> Firing | None:
        """One firing per stage; later stages come on the rechecks."""
        if isinstance(event, Committed):
            self._committed(event)
        elif isinstance(event, Began):
            self._supplies[event.actor] = self._supply(event.row)
        if self.condition is not None and self.condition.check(event, now) is not None:
            for actor, supply in self._supplies.items():
                self._ship(actor, supply.left)
        return self._queue.popleft() if self._queue else None

    def due(self) -> float | None:
        """When its condition wants to be asked."""
        return None if self.condition is None else self.condition.due()

    def parts(self) -> tuple[Trigger, ...]:
        """Itself and the primitives of its condition."""
        return (self,) if self.condition is None else (self, *self.condition.parts())

    def _committed(self, event: Committed) -> None:
        if event.actor not in self._supplies:
            self._supplies[event.actor] = self._supply(0)
        supply = self._supplies[event.actor]
        supply.add(event.written, event.version)
        while self.condition is None and supply.left >= self.size:
            self._ship(event.actor, self.size)

    def _supply(self, row: int) -> Supply:
        return Supply((key for stage in self.stages() for key in stage), row)

    def _ship(self, actor: int, rows: int) -> None:
        supply = self._supplies[actor]
        if rows == 0:
            return
        version = supply.oldest_version
        claim = (Claim(actor, *supply.take(rows)),)
        self._queue.extend(Firing(claims=claim, keys=s, version=version) for s in self.stages())
