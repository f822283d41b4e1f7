"""Sits on a worker's cache buffer and ships rows to the replay buffer, stage after stage."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from artos.messages import Claim
from triggers.base import Firing, Trigger
from triggers.events import Committed, Event


@dataclass
class TransferTrigger(Trigger):
    """``TransferTrigger(keys, condition)`` of paper §4.2 (checklist A15).

    ``keys`` is one group of data keys or several: several are shipped one after the other, each as a
    firing of its own, which makes the dual-stage pipeline. It fires for an actor when ``size`` rows of
    all keys are committed, or, with ``condition``, for everything committed when that trigger fires.
    On one machine a transfer moves a cursor, no bytes.
    """

    keys: tuple[tuple[str, ...], ...] | tuple[str, ...]
    size: int = 1
    condition: Trigger | None = None
    _sent: dict[int, int] = field(init=False, default_factory=dict)
    _committed: dict[int, tuple[int, int]] = field(init=False, default_factory=dict)
    _queue: deque[Firing] = field(init=False, default_factory=deque)

    def stages(self) -> tuple[tuple[str, ...], ...]:
        """The groups of keys in the order in which they are shipped."""
        if all(isinstance(key, str) for key in self.keys):
            return (tuple(str(key) for key in self.keys),)
        return tuple(tuple(stage) for stage in self.keys)

    def check(self, event: Event, now: float) -> Firing | None:
        """One firing per stage; later stages come on the rechecks."""
        if isinstance(event, Committed):
            rows = min(event.written.get(key, 0) for stage in self.stages() for key in stage)
            self._committed[event.actor] = (rows, event.version)
            self._sent.setdefault(event.actor, 0)
            if self.condition is None:
                self._ship_full(event.actor)
        if self.condition is not None and self.condition.check(event, now) is not None:
            for actor, (rows, _) in self._committed.items():
                self._ship(actor, rows)
        return self._queue.popleft() if self._queue else None

    def due(self) -> float | None:
        """When its condition wants to be asked."""
        return None if self.condition is None else self.condition.due()

    def _ship_full(self, actor: int) -> None:
        rows = self._committed[actor][0]
        while rows - self._sent[actor] >= self.size:
            self._ship(actor, self._sent[actor] + self.size)

    def _ship(self, actor: int, stop: int) -> None:
        start, version = self._sent[actor], self._committed[actor][1]
        if stop <= start:
            return
        self._sent[actor] = stop
        claim = (Claim(actor, start, stop),)
        self._queue.extend(Firing(claims=claim, keys=s, version=version) for s in self.stages())
