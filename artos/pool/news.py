"""What follows from a change of the table."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Revoked:
    """A lease that was taken away: its process (as seen where it runs), and how late it was."""

    workload: str
    resource: str
    pid: int
    late_seconds: float


@dataclass(slots=True)
class News:
    """What follows from a change: members to wake, leases that were taken away."""

    wake: set[int] = field(default_factory=set)
    revoked: list[Revoked] = field(default_factory=list)
