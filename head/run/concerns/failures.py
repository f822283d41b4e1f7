"""How often a member may fail before a run gives up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from artos.errors import ActorFailed, LearnerFailed, MemberFailed
from artos.specs.members import ACTORS, LEARNER, Member
from artos.system.exit_report import START_SECONDS, ExitReport


@dataclass(frozen=True)
class FailureLimits:
    """How patient the coordinator is: deadlines in seconds, restarts in a row before giving up.

    ``answer`` is for one invocation, ``start`` for a member to become ready, ``stall`` for any
    trigger to fire while no member works. ``failures`` limits the restarts after a member's own
    faults (it raised, hung or crashed), ``kills`` those after it was killed from outside. Failures
    count as in a row until a member has carried out ``calm`` invocations, or an environment that
    fails every hundred steps would be restarted for ever. Every restart in a row but the first is
    preceded by a pause of ``backoff`` seconds, doubled each time up to ``most_backoff``.
    """

    answer: float = 300.0
    start: float = START_SECONDS
    stall: float = 300.0
    failures: int = 3
    kills: int = 25
    calm: int = 50
    backoff: float = 0.1
    most_backoff: float = 5.0

    def delay(self, count: int) -> float:
        """Seconds before a restart that is the ``count``-th in a row: none before the first."""
        return 0.0 if count < 2 else min(self.most_backoff, self.backoff * 2.0 ** (count - 2))

    @classmethod
    def within(cls, seconds: float) -> FailureLimits:
        """Limits for members that answer within ``seconds``; a start has two minutes at least."""
        return cls(answer=seconds, start=max(START_SECONDS, seconds), stall=seconds)


class Failures:
    """Failures in a row by member."""

    def __init__(self, limits: FailureLimits) -> None:
        self._limits = limits
        self._counts: dict[tuple[Member, bool], int] = {}
        self._calm: dict[Member, int] = {}

    def answered(self, member: Member) -> None:
        """The member carried out an invocation."""
        self._counts.pop((member, False), None)
        self._calm[member] = self._calm.get(member, 0) + 1
        if self._calm[member] >= self._limits.calm:
            self._counts.pop((member, True), None)

    def hopeless(self, member: Member, death: ExitReport) -> bool:
        """Whether it was restarted as often as the limits allow, or would only end the same way."""
        limit = self._limits.failures if death.own else self._limits.kills
        return death.fatal or self._counts.get((member, death.own), 0) >= limit

    def _book(self, member: Member, death: ExitReport) -> int:
        self._calm[member] = 0
        count = self._counts[member, death.own] = self._counts.get((member, death.own), 0) + 1
        return count

    def count(self, member: Member, death: ExitReport, step: int) -> int:
        """Book a failure at ``step`` (rows, or the version); returns how many there are in a row.

        Raises:
            MemberFailed: the member is beyond hope.
        """
        if not self.hopeless(member, death):
            return self._book(member, death)
        count = self._book(member, death)
        raise _ERRORS.get(member.role, _failed)(member, step, death.why, count - 1)


def _failed(member: Member, step: int, why: str, restarts: int) -> MemberFailed:
    return MemberFailed(f"{member} failed at step {step}", why, restarts)


_ERRORS: dict[str, Callable[[Member, int, str, int], MemberFailed]] = {
    LEARNER: lambda _, version, why, restarts: LearnerFailed(version, why, restarts),
    ACTORS: lambda member, step, why, restarts: ActorFailed(member.rank, step, why, restarts),
}
