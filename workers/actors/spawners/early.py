"""The first actors of a run, forked from the process that has imported the workload's code."""

from __future__ import annotations

from artos.runtime.preload import Preloaded
from artos.specs.members import Member
from artos.system.child import ProcessSpec
from artos.system.child_modules import ChildModule
from workers.actors.spawners.spawner import Place, Spawned


class Early:
    """Forks the first ``most`` actors. With ``images``, images can be made of them as of clones.

    No more are forked: only the kernel knows which pages a fork shares, so the image of each fork
    holds all of its memory. ``others``: there may be more actors than ``most``.
    """

    def __init__(
        self,
        preloaded: Preloaded,
        place: Place,
        most: int,
        *,
        others: bool,
        images: bool,
    ) -> None:
        self._preloaded, self._place = preloaded, place
        self._left, self.others, self._images = most, others, images

    def spawn(self, member: Member) -> Spawned | None:
        """A new process of that actor; None if another way to spawn it must be taken."""
        if not self._left:
            return None
        arguments = (self._place.text_for(member), str(self._place.plan_file))
        spec = ProcessSpec(ChildModule.MEMBER, arguments, apart=self._images)
        child = self._preloaded.forked(spec, self._place.log_of(member))
        self._left -= 1  # if it could be tried
        return None if child is None else Spawned(member, child, "fork")
