"""When a run samples no more, when it is trained, and when it is over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from artos.protocol.invocations import Invoke
from artos.specs.members import Member

if TYPE_CHECKING:
    from head.run.coordination.coordinator import Coordinator


class Ending:
    """Why and how far a run has come to its end."""

    def __init__(self, run: Coordinator) -> None:
        self._run = run
        self.draining = False
        """Whether the run is to stop: work under way is finished, and nothing else is begun."""
        self.why = ""
        """What ended the sampling, such as the setting that limits it; "" if nothing did."""
        self._updates = False

    @property
    def learned(self) -> bool:
        """Whether no more is learned, also from rows that are left."""
        return self._updates

    def drain(self) -> None:
        """Grant no more sampling and no evaluation; invocations in flight are finished."""
        self.draining = True

    def end(self, why: str, *, updates: bool = False) -> None:
        """Sample no more, as ``why`` says; ``updates``: also learn from nothing that is left."""
        if not self.why or (updates and not self._updates):
            self.why, self._updates = why, updates

    @property
    def samples(self) -> bool:
        """Whether more rounds will be granted."""
        return not (self.draining or self.why)

    @property
    def trained(self) -> bool:
        """Whether actors and learner are done with all that was and will be granted.

        Before the first version there is nothing to finish or to save.
        """
        run = self._run
        if run.version < 0:
            return self.draining and run.published < 0
        return not self.samples and not self.works(run.invocations)

    def works(
        self, invocations: Iterable[tuple[Member, Invoke]], *, but_pulls: bool = False
    ) -> bool:
        """Whether the end of the run waits for any of these; ``but_pulls``: which is no pull.

        While draining, and after the last update, an actor that waits for room is not waited for,
        as only more updates would make that room, and neither is one without a place to run, or
        that only binds weights. While draining, neither is an actor that has not begun and whose
        round nobody lacks, nor an update that waits for its device.
        """
        run = self._run
        if self.draining or self._updates:
            left_out = self.draining and run.progress.steps <= run.progress.consumed
            return run.roster.anybody_works(
                invocations, placed=True, but_pulls=True, but_waits=self.draining,
                but_late=left_out,
            )  # fmt: skip
        return any(
            role.trains and not (but_pulls and role.samples and not call.stop)
            for member, call in invocations
            if (role := run.members.role(member))
        )

    def look(self) -> bool:
        """Whether the run is over: it is trained, and no concern has more to do."""
        if not self.trained:
            return False
        done = [each.trained() for each in self._run.concerns]  # all of them are to know
        return all(done)
