"""The first actors of a run, forked while the template to clone them from is in the making."""

from __future__ import annotations

from collections.abc import Callable

from artos.runtime.preload import Order
from artos.runtime.preloaded import Preloaded
from workers.nursery import Birth, Place
from workers.slots import Slot


class Early:
    """Forks actors of which images can be made like those of clones."""

    def __init__(
        self, preloaded: Preloaded, place: Place, pin: Callable[[int, Slot], None]
    ) -> None:
        self._preloaded, self._place, self._pin = preloaded, place, pin
        self.births = 0

    def birth(self, member: int, slot: Slot | None) -> Birth | None:
        """A process of that actor; None if it cannot be forked."""
        arguments = (self._place.text_for(member), str(self._place.plan_file))
        order = Order("artos.runtime.process", arguments, apart=True)
        child = self._preloaded.forked(order, self._place.log_of(member))
        if child is None:
            return None
        if slot is not None:
            self._pin(child.pid, slot)
        self.births += 1
        return Birth(member, child, "fork")
