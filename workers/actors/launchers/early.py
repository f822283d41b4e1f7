"""The first actors of a run, forked while the template to clone them from is in the making."""

from __future__ import annotations

from collections.abc import Callable

from artos.runtime.preloaded import Preloaded
from artos.system.child import ProcessSpec
from artos.system.child_modules import ChildModule
from workers.actors.launchers.launcher import Launched, Place
from workers.host.slots import Slot


class Early:
    """Forks the first ``most`` actors, so that images can be made of them like of clones.

    Of no more: what a fork shares with others only the kernel knows, so each of their images holds
    all of the memory. ``others`` is whether there may be actors beyond.
    """

    def __init__(
        self, preloaded: Preloaded, place: Place, pin: Callable[[int, Slot], None], most: int,
        *, others: bool,
    ) -> None:  # fmt: skip
        self._preloaded, self._place, self._pin = preloaded, place, pin
        self._left, self.others = most, others

    def launch(self, member: int, slot: Slot | None) -> Launched | None:
        """A process of that actor; None if it is to be launched otherwise."""
        if not self._left:
            return None
        self._left -= 1
        arguments = (self._place.text_for(member), str(self._place.plan_file))
        spec = ProcessSpec(ChildModule.MEMBER, arguments, apart=True)
        child = self._preloaded.forked(spec, self._place.log_of(member))
        if child is None:
            return None
        if slot is not None:
            self._pin(child.pid, slot)
        return Launched(member, child, "fork")
