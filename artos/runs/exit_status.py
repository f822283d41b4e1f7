"""How a run ended: the outcome as a word, and as an exit status for the shell."""

from __future__ import annotations

from enum import IntEnum

from artos.errors import CheckpointFault, NotOurs, NotRunning, Refused, RunExists, ShmTooSmall
from artos.pool.faults import PoolDamaged, PoolVersion

REFUSALS = (
    Refused, RunExists, NotRunning, ShmTooSmall, CheckpointFault, NotOurs, PoolDamaged, PoolVersion,
)  # fmt: skip
"""Errors raised before anything is started or changed."""


class ExitStatus(IntEnum):
    """Exit statuses of ``artos run`` and of every other command."""

    DONE = 0
    FAILED = 1
    REFUSED = 2
    NO_ROOM = 75
    """Of a run process on a cluster: there will be memory for it once other runs have left."""
    INTERRUPTED = 130

    @property
    def outcome(self) -> str:
        """The word for this status: done, failed, refused, no_room or interrupted."""
        return self.name.lower()

    @classmethod
    def of_outcome(cls, outcome: str) -> ExitStatus:
        """The exit status that a word stands for; an unknown word is a failure."""
        return next((status for status in cls if status.outcome == outcome), cls.FAILED)

    @classmethod
    def _missing_(cls, value: object) -> ExitStatus:
        return cls.FAILED  # any other exit status


OUTCOMES = frozenset(status.outcome for status in ExitStatus)
"""Every word for how a run can end."""
