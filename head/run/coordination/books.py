"""The books of a run: what members have to answer, rounds granted, rows claimed."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from artos.protocol.invocations import ALL, Claim, Invoke
from artos.specs.members import Member


@dataclass(slots=True)
class Outstanding:
    """An invocation that the member has not answered yet."""

    call: Invoke
    sent: float
    """When the member was sent it, or could begin with it (seconds)."""


class Invocations:
    """The invocations in flight of each member, in order; each is answered once."""

    def __init__(self) -> None:
        self._queues: dict[Member, deque[Outstanding]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, member: Member, call: Invoke, now: float) -> None:
        """Book an invocation as sent."""
        self._queues.setdefault(member, deque()).append(Outstanding(call, now))
        self._count += 1

    def answer(self, member: Member, firing: int) -> Invoke | None:
        """Book the answer to the member's oldest invocation; None if that is of another firing."""
        queue = self._queues.get(member)
        if not queue or queue[0].call.firing != firing:
            return None
        self._count -= 1
        return queue.popleft().call

    def of(self, member: Member) -> tuple[Invoke, ...]:
        """The invocations that the member has still to answer, oldest first."""
        return tuple(entry.call for entry in self._queues.get(member, ()))

    def through(self, member: Member, firing: int) -> tuple[Invoke, ...]:
        """The member's unanswered invocations up to that firing; () if that one is answered."""
        calls = self.of(member)
        last = next((at for at, call in enumerate(calls) if call.firing == firing), -1)
        return calls[: last + 1]

    def drop(self, member: Member) -> None:
        """The member answers nothing any more."""
        self._count -= len(self._queues.pop(member, ()))

    def count(self, member: Member, trigger: str) -> int:
        """Number of invocations of this trigger that the member has still to answer."""
        return sum(entry.call.trigger == trigger for entry in self._queues.get(member, ()))

    def last(self, member: Member) -> Invoke | None:
        """The member's newest unanswered invocation."""
        queue = self._queues.get(member)
        return queue[-1].call if queue else None

    def after(self, member: Member, firing: int, non_publishing: Container[str]) -> int:
        """Number of unanswered invocations after that firing, without ``non_publishing`` ones."""
        calls = [call.firing for call in self.of(member) if call.trigger not in non_publishing]
        return len(calls) - (calls.index(firing) + 1 if firing in calls else 0)

    def restamp(self, member: Member, now: float) -> None:
        """The member is restarted: give its invocations their full time again."""
        for entry in self._queues.get(member, ()):
            entry.sent = now

    def __iter__(self) -> Iterator[tuple[Member, Invoke]]:
        """All unanswered invocations with their members, the oldest of each member first."""
        for member, queue in self._queues.items():
            for entry in queue:
                yield member, entry.call

    def overdue(self, now: float, seconds: float) -> Iterator[tuple[Member, Invoke]]:
        """Members whose oldest invocation was sent more than ``seconds`` ago."""
        for member, queue in self._queues.items():
            if queue and now - queue[0].sent > seconds:
                yield member, queue[0].call

    def touch(self, member: Member, now: float) -> None:
        """The member answered: its next invocation begins only now."""
        queue = self._queues.get(member)
        if queue:
            queue[0].sent = max(queue[0].sent, now)


class Rounds:
    """Rows granted to actors, in rounds of ``steps``, and written, after those ``begun`` with."""

    def __init__(self, begun: Mapping[int, int], steps: int) -> None:
        self._steps = steps
        self._granted, self._written = {**begun}, {**begun}
        self._most, self.ends = 1, dict[int, int]()
        """Where the last round of each actor ended, as it said, if rounds may end early."""
        self.granted = self.written = 0
        """Rows of all actors together: running sums, because they are read with every event."""

    def grant(self, actor: int) -> int | None:
        """Grant one more round; returns the row up to which the actor is to sample.

        None if the actor still has as many rounds to sample as a firing ever let it have.
        """
        if self._granted[actor] - self._written[actor] >= self._most * self._steps:
            return None
        self._granted[actor] += self._steps
        self.granted += self._steps
        return self._granted[actor]

    def shorten(self, actor: int) -> int:
        """The actor has nothing to sample any more; returns how many granted rows that leaves."""
        rows = self._granted[actor] - self._written[actor]
        self._granted[actor] -= rows
        self.granted -= rows
        return rows

    def at_once(self, rounds: int) -> None:
        """So many rounds an actor may have to sample."""
        self._most = max(self._most, rounds)

    def granted_to(self, actor: int) -> int:
        """The row up to which an actor is to sample."""
        return self._granted[actor]

    def written_by(self, actor: int) -> int:
        """Rows an actor has written."""
        return self._written[actor]

    def wrote(self, actor: int, rows: int) -> int:
        """An actor has written ``rows`` rows by now; returns the number before.

        They become fewer if rows were lost with a node; what was granted is still to be sampled.
        """
        before, self._written[actor] = self._written[actor], rows
        self.written += rows - before
        return before


@dataclass
class _Cursor:
    claimed: int = 0
    acknowledged: int = 0
    in_use: set[int] = field(default_factory=set)  # first rows of claims that are not done


class Claims:
    """Each consumer's cursors over each actor's rows: acknowledged up to the first row in use.

    Where claims are of single environments, each of a consumer's ``envs`` has a cursor, and rows
    are acknowledged that no environment needs; those between two claims are of no use to anyone.
    Rows that an ``uncounted`` consumer is done with are not consumed: other consumers need them.
    Rows before an actor's first row in ``begun`` were handed over earlier.
    """

    def __init__(
        self, uncounted: Container[str] = (), envs: Mapping[str, int] | None = None,
        begun: Mapping[int, int] | None = None,
    ) -> None:  # fmt: skip
        self._uncounted, self._envs, self._begun = uncounted, envs or {}, begun or {}
        self._cursors: dict[tuple[str, int], dict[int, _Cursor]] = {}
        self._furthest = {**self._begun}
        self._consumed = 0

    def claim(self, consumer: str, claims: Iterable[Claim]) -> None:
        """Book rows as handed over."""
        for claim in claims:
            if (cursors := self._cursors.get((consumer, claim.actor))) is None:
                envs = (ALL,) if claim.env == ALL else range(self._envs[consumer])
                at = self._begun.get(claim.actor, 0)
                cursors = self._cursors[consumer, claim.actor] = {e: _Cursor(at, at) for e in envs}
            cursor = cursors[claim.env]
            cursor.claimed = max(cursor.claimed, claim.stop)
            cursor.in_use.add(claim.start)

    def claimed(self, consumer: str, actor: int, env: int | None = None) -> int:
        """The row up to which an actor's rows, or those of ``env``, were handed to a consumer."""
        cursors = self._cursors.get((consumer, actor), {}).items()
        found = (cursor.claimed for each, cursor in cursors if env in (None, each))
        return max(found, default=self._begun.get(actor, 0))

    def done(self, consumer: str, claim: Claim) -> tuple[int, int]:
        """Book rows as used; returns the consumer's ``(claimed, acknowledged)`` for that actor."""
        cursors = self._cursors[consumer, claim.actor]
        cursor = cursors[claim.env]
        cursor.in_use.discard(claim.start)
        cursor.acknowledged = min(cursor.in_use) if cursor.in_use else cursor.claimed
        acknowledged = min([each.acknowledged for each in cursors.values()])
        if consumer not in self._uncounted:
            # A running sum, because it is read with every firing, however many actors there are.
            before = self._furthest.get(claim.actor, 0)
            self._furthest[claim.actor] = furthest = max(before, acknowledged)
            self._consumed += furthest - before
        return max([each.claimed for each in cursors.values()]), acknowledged

    def consumed(self) -> int:
        """Rows acknowledged: the sum over actors of the furthest consumer that counts."""
        return self._consumed
