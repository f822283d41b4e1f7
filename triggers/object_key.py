"""Fires when a model-related object has a new version."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from triggers.base import Firing, Trigger
from triggers.events import Event, Joined, Left, Published


@dataclass
class ObjectKeyTrigger(Trigger):
    """``ObjectKeyTrigger(key)`` of paper §4.2: on-policy synchronisation and actor invocation.

    The key is ``model_param``, the weights, or any object that the learner publishes.
    Fires on the first version it sees and on every ``every``-th after it. With ``probability``
    each actor is chosen independently with that probability, from a stream of its
    own seeded by ``seed``. ``lead`` lets producers be that many rounds ahead of the versions: the
    first firing grants ``1 + lead`` rounds and every later one grants one. If each version consumes
    one round of every actor, no row is more than ``lead`` versions old when it is consumed.
    """

    key: str = "model_param"
    every: int = 1
    probability: float | None = None
    seed: int = 0
    lead: int = 0
    _actors: dict[int, None] = field(init=False, repr=False, compare=False, default_factory=dict)
    _first: int | None = field(init=False, repr=False, compare=False, default=None)
    _began: bool = field(init=False, repr=False, compare=False, default=False)
    _random: random.Random = field(
        init=False, repr=False, compare=False, default_factory=random.Random
    )

    def __post_init__(self) -> None:
        self._random.seed(self.seed)

    def check(self, event: Event, now: float) -> Firing | None:
        """Only a new version of its key satisfies it."""
        match event:
            case Joined():
                self._actors[event.actor] = None
            case Left():
                self._actors.pop(event.actor, None)
            case Published(key=self.key) if self._is_turn(event.version):
                return self._fire(event.version)
        return None

    def objects_read(self) -> tuple[str, ...]:
        """Its key."""
        return (self.key,)

    def _is_turn(self, version: int) -> bool:
        # A resumed run begins with any version number, and must begin with a firing.
        self._first = version if self._first is None else self._first
        return (version - self._first) % self.every == 0

    def _fire(self, version: int) -> Firing | None:
        rounds, self._began = (1 if self._began else 1 + self.lead), True
        if self.probability is None:
            return Firing(rounds=rounds, version=version)
        chosen = tuple(a for a in self._actors if self._random.random() < self.probability)
        return Firing(actors=chosen, rounds=rounds, version=version) if chosen else None
