"""Settings that change while the run goes: by ``artos set``, or as its table says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from artos.errors import Refused
from artos.runs.run_config import CONFIG
from artos.specs.configuration import Configuration
from head.run.coordination.concern import Concern
from head.run.run import Run
from triggers.events import Event, Firing, Published
from triggers.setting import bound, following, lags_set, setting_faults
from triggers.table import Table
from triggers.targets import parsed

_log = logging.getLogger(__name__)

Keep = Callable[[Configuration], None]


class Configured(Concern[Run]):
    """Changes ``run.configuration``, by which invocations are made, and journals what changes.

    A run that goes on has the ``configuration`` that it was left with. ``keep`` writes down each.

    A lower ``max_lag`` bounds at once how far ahead actors are from now on. Rows that they were
    granted before are still learned from as they come, for as many versions as they may be old: if
    they were given up, there might be none to make the next version of.
    """

    def __init__(
        self, run: Run, table: Table, configuration: Configuration, keep: Keep | None = None
    ) -> None:
        super().__init__(run)
        self._table, self._keep = table, keep
        self._kept, self._tightens = True, dict[str, int]()
        named = configuration.settings
        gone = [n for n in named if setting_faults(run.plan, table, {n: named[n]})]
        run.configuration = configuration.without(gone)
        if most := lags_set(run.plan, run.configuration):
            bound(table, most)

    def begin(self) -> None:
        """What was changed before holds from the first invocation on.

        The journal has that in any case: it may lack the last change, or have one that the run goes
        back before, so that nothing may be set.
        """
        if self.run.configuration.number:
            self._journal(self.run.configuration.settings)
            # Triggers that go on from a snapshot may have had another.
            self._bound(lags_set(self.run.plan, self.run.configuration))

    def set(self, settings: Mapping[str, float]) -> Configuration:
        """Go on with these settings; returns all that hold from the next invocation on.

        Raises:
            Refused: no such setting may change, or it may not have that value; all faults at once.
                Or it cannot be written down.
        """
        if wrong := setting_faults(self.run.plan, self._table, settings):
            raise Refused(wrong)
        found = self.run.configuration.changed(settings)
        try:
            self._write(found)
        except OSError as error:
            why = f"{CONFIG} cannot be written ({error.strerror})"
            raise Refused([f"nothing was changed: {why}: make room and set it again"]) from error
        self.run.configuration = found
        self._changed(settings)
        return found

    def fire(self, firing: Firing) -> None:
        """A trigger that sets something fired."""
        name = parsed(firing.trigger).method
        present = self.run.configuration.settings.get(name)
        value = following(self._table[firing.trigger].sets, present)
        if value is None:
            self.run.in_vain(firing)
            return
        self.run.configuration = self.run.configuration.changed({name: value}, by_table=True)
        # Before the journal has it: in a run that is killed in between, and goes on from what was
        # written down, no change has a number that the journal knows of another one.
        self._kept = False
        self.tick()
        self._changed({name: value})

    def tick(self) -> None:
        """Write down what a trigger set; it holds even while that is not possible."""
        if not self._kept:
            try:
                self._write(self.run.configuration)
            except OSError as error:
                _log.warning("%s cannot be written (%s): a resumed run would not go on with what "
                             "was set; it is tried again", CONFIG, error.strerror)  # fmt: skip

    def happened(self, event: Event) -> None:
        """With some version all rows are used that were granted under a larger ``max_lag``."""
        if not (self._tightens and isinstance(event, Published)):
            return
        due = {
            name
            for name, version in self._tightens.items()
            if event.key == self.run.plan.weights_of(name) and event.version >= version
        }
        if due:
            self._tightens = {n: at for n, at in self._tightens.items() if n not in due}
            most = lags_set(self.run.plan, self.run.configuration)
            bound(self._table, most, granted=self._tightens)

    def _write(self, configuration: Configuration) -> None:
        if self._keep is not None:
            self._keep(configuration)
        self._kept = True

    def _changed(self, settings: Mapping[str, float]) -> None:
        self._journal(settings)
        self._bound(lags_set(self.run.plan, Configuration(settings={**settings})))

    def _bound(self, changed: Mapping[str, int]) -> None:
        """Bound the lags of these learners, or go on with what is still to be bounded."""
        if not changed:
            return
        most = lags_set(self.run.plan, self.run.configuration)
        granted = self._tightens.keys() | changed.keys()
        before = bound(self._table, most, granted)
        for name, lag in changed.items():
            self._tightens.pop(name, None)
            if before[name] > lag:
                self._tightens[name] = self.run.learners[name].told + before[name] + 1

    def _journal(self, settings: Mapping[str, float]) -> None:
        run = self.run
        line = {"set": {**settings}, "configuration": run.configuration.number}
        run.ports.journal.write({**line, "version": run.version})
