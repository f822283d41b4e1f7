"""Which member made happen what triggers are checked for, as the journal has it."""

from __future__ import annotations

from artos.specs.keys import EPISODES, episodes_of
from artos.specs.members import ACTORS, Member
from head.run.coordination.concern import Concern
from head.run.run import Run
from triggers.events import Event, Learned, Published
from triggers.targets import parsed


class Causes(Concern[Run]):
    """Comes after all that have more happen at once: for instance, actors join with a version."""

    def happened(self, event: Event) -> None:
        """What fires now has waited for this last."""
        self.run.ports.journal.cause = str(self._maker(event) or "")

    def _maker(self, event: Event) -> Member | None:
        """The member that made it happen, if one did."""
        learners = self.run.learners
        match event:
            case Published(key=key) if key == EPISODES or episodes_of(key):
                return None
            case Published(key=key):
                return learners.get(key.rpartition("/")[0], self.run.first).member
            case Learned(trigger=trigger):
                return learners[parsed(trigger).role].member
        actor = getattr(event, "actor", None)
        return None if actor is None else Member(ACTORS, actor)
