"""Devices that the learner leases for its updates."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from artos.protocol.invocations import Done, Invoke
from artos.specs.members import Member
from artos.system.faults import Seldom
from head.run.coordination.concern import NOTHING, Concern
from head.run.run import Run

_log = logging.getLogger(__name__)


class Leases(Concern[Run]):
    """Counts what became of the leases of a run."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._seldom = Seldom(_log)

    def answered(self, member: Member, call: Invoke, done: Done) -> Mapping[str, Any]:
        """The learner gave its device back, or it was taken from it while it updated."""
        if not self.run.members.role(member).publishes:
            return NOTHING
        device = self.run.monitor.devices[member.role]
        device.idle += done.device_idle
        if done.lost_lease:
            device.lost += 1
            self._seldom.warning(
                "%s (firing %d) took %.1f s, which was too long for its lease: meanwhile %s was "
                "given to another one that waited",
                call.trigger, call.firing, done.seconds, done.lost_lease,
            )  # fmt: skip
        return NOTHING
