"""What follows from a change of the table once its lock is given back."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Revoked:
    """A lease that was revoked, as its holder was overdue while others waited."""

    workload: str
    resource: str
    pid: int
    """The holder's process, as seen in its own PID namespace."""
    overdue_seconds: float


@dataclass(slots=True)
class Effects:
    """The members to wake, by number, and the leases that were revoked."""

    wake: set[int] = field(default_factory=set)
    revoked: list[Revoked] = field(default_factory=list)
