"""Settings that a user changes while the run goes, by ``artos set``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from artos.errors import Refused
from artos.runs.run_config import CONFIG
from artos.specs.configuration import ENV, Changeable, Configuration
from artos.specs.members import LEARNER
from head.run.coordination.concern import Concern
from head.run.run import Run

Keep = Callable[[Configuration], None]


class Configured(Concern[Run]):
    """Changes ``run.configuration``, by which invocations are made, and journals what changes.

    A run that goes on has the ``configuration`` that it was left with. ``keep`` writes down each.
    """

    def __init__(self, run: Run, configuration: Configuration, keep: Keep | None = None) -> None:
        super().__init__(run)
        self._keep = keep
        known = self._known = changeable(run)
        gone = [name for name in configuration.settings if name not in known]
        run.configuration = configuration.without(gone)

    def begin(self) -> None:
        """What was changed before holds from the first invocation on."""
        if self.run.configuration.settings:
            self._journal(self.run.configuration.settings)

    def set(self, settings: Mapping[str, float]) -> Configuration:
        """Go on with these settings; returns all that hold from the next invocation on.

        Raises:
            Refused: no such setting may change, or it may not have that value; all faults at once.
                Or it cannot be written down.
        """
        found = self.run.configuration.changed(settings, self._known)
        if self._keep is not None:
            try:
                self._keep(found)
            except OSError as error:
                why = f"{CONFIG} cannot be written ({error.strerror})"
                raise Refused(
                    [f"nothing was changed: {why}: make room and set it again"]
                ) from error
        self.run.configuration = found
        self._journal(settings)
        return self.run.configuration

    def _journal(self, settings: Mapping[str, float]) -> None:
        run = self.run
        line = {"set": {**settings}, "configuration": run.configuration.number}
        run.ports.journal.write({**line, "version": run.version})


def changeable(run: Run) -> Mapping[str, Changeable]:
    """What may be set while the run goes, by the names that users know."""
    learner = {f"{LEARNER}.{each.name}": each for each in run.plan.changeable}
    return learner | {f"{ENV}.{each.name}": each for each in run.plan.settable}
