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

    Every restart in a row but the first is preceded by a pause.
    """

    answer: float = 300.0
    """For one invocation."""
    start: float = START_SECONDS
    """For a member to become ready."""
    stall: float = 300.0
    """For any trigger to fire while no member works."""
    failures: int = 3
    """Restarts after a member's own faults: it raised, hung or crashed."""
    kills: int = 25
    """Restarts after a member was killed from outside."""
    calm: int = 50
    """Invocations that a member has to carry out until its failures no longer count as in a row.

    More than a few, or an environment that fails every hundred steps would be restarted forever.
    """
    backoff: float = 0.1
    """The first pause in seconds; each further one in a row is twice as long."""
    most_backoff: float = 5.0
    """The longest pause."""

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
        if (error := _ERRORS.get(member.role)) is not None:
            raise error(member, step, death.why, count - 1)
        raise MemberFailed(f"{member} failed at step {step}", death.why, count - 1)


_ERRORS: dict[str, Callable[[Member, int, str, int], MemberFailed]] = {
    LEARNER: lambda _, version, why, restarts: LearnerFailed(version, why, restarts),
    ACTORS: lambda member, step, why, restarts: ActorFailed(member.rank, step, why, restarts),
}
