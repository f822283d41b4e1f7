"""The rows that killed processes of a run left in shared memory, for the one that resumes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from artos.buffer.actor_block import ActorBlock
from artos.buffer.shm_folder import ShmFolder
from artos.errors import LayoutMismatch
from artos.runs.plan import Plan, Site
from artos.system.closing import Closing


class LeftRows(Closing):
    """What is left of the run in the folder ``run``: nobody else takes or removes it until closed.

    It stays where it is until it is given up, so a resume that is refused loses nothing.
    """

    def __init__(self, run: Path) -> None:
        self._folders = ShmFolder.left_by(run)

    def blocks(self, plan: Plan, rows: Sequence[int]) -> dict[int, Path]:
        """The files of actors' blocks of the layout of ``plan`` that still have some, by actor.

        Of each actor its first ``rows`` are of use.
        """
        found = {}
        for folder in self._folders:
            site = Site(str(folder.path), plan.members.publisher, plan.members)
            for actor, useful in zip(range(plan.actors), rows, strict=False):
                path = site.block_path(actor)
                try:
                    block = ActorBlock.attach(path)
                    if block.spec == plan.block(actor) and block.oldest() < useful:
                        found[actor] = path
                except (OSError, LayoutMismatch):  # it never began, or was taken already
                    continue
        return found

    def give_up(self) -> None:
        """Remove what was not taken."""
        folders, self._folders = self._folders, []
        for folder in folders:
            folder.remove()

    def close(self) -> None:
        """Leave it to others; twice is fine."""
        for folder in self._folders:
            folder.leave()
