"""The books of a run: rows that came, what was handed out, and the weights that actors hold."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from artos.buffer.actor_block import ActorBlock
from artos.buffer.mailbox import ordered
from artos.plan import Plan
from artos.protocol.invocations import Claim, Invoke
from artos.spec import VERSION_KEY
from triggers.base import Arrived, Committed

Rows = Committed | Arrived


class RowSource(Protocol):
    """Looks at an actor's block when something in it changed.

    ``in_place``: actors write to these blocks themselves, so one without room waits.
    """

    in_place: bool

    def news(self, actor: int) -> tuple[int, list[Rows]]:
        """Rows that are there in all keys, and what is new since the last call, in order."""

    def rewind(self, actor: int, term: int, rows: int) -> None:
        """From row ``rows`` on the actor's rows come from its next place."""


class Commits:
    """Head and workers share the blocks: rows are in the replay buffer as soon as committed.

    With a transfer in the table (``shipped``) they only count as arrived once that has fired.
    """

    in_place = True

    def __init__(self, blocks: Mapping[int, ActorBlock], *, shipped: bool) -> None:
        self._blocks, self._shipped = blocks, shipped
        self._told = dict.fromkeys(blocks, 0)

    def news(self, actor: int) -> tuple[int, list[Rows]]:
        """See ``RowSource.news``."""
        block = self._blocks[actor]
        written = {name: header.written for name, header in block.headers.items()}
        rows = min(written.values())
        told, self._told[actor] = self._told[actor], rows
        events: list[Rows] = []
        for stop, version in _runs(block, told, rows):
            upto = written if stop == rows else dict.fromkeys(written, stop)
            events.append(Committed(actor, upto, version))
            if not self._shipped:
                events.append(Arrived(actor, upto, version))
        return rows, events

    def rewind(self, actor: int, term: int, rows: int) -> None:
        """Never: an actor of this machine stays where it is."""


class Arrivals:
    """Rows come from worker nodes, key by key, into the head's blocks; that is all that counts.

    The block's ``incarnation`` is the term of the place that its rows come from: while it is
    another one than that of the actor's present place, nothing in the block is looked at.
    """

    in_place = False

    def __init__(self, blocks: Mapping[int, ActorBlock]) -> None:
        self._blocks = blocks
        self._told = {actor: dict.fromkeys(block.headers, 0) for actor, block in blocks.items()}
        self._terms = dict.fromkeys(blocks, 0)

    def news(self, actor: int) -> tuple[int, list[Rows]]:
        """See ``RowSource.news``; keys may arrive at different times."""
        block, told = self._blocks[actor], self._told[actor]
        grown: dict[tuple[int, int], list[str]] = {}
        for name, rows in self._arrived(actor).items():
            if rows > told[name]:
                grown.setdefault((told[name], rows), []).append(name)
                told[name] = rows
        events: list[Rows] = [
            Arrived(actor, dict.fromkeys(names, stop), version)
            for span, names in grown.items()
            for stop, version in _runs(block, *span)
        ]
        return min(told.values()), events

    def _arrived(self, actor: int) -> Mapping[str, int]:
        block = self._blocks[actor]
        if block.incarnation != self._terms[actor]:
            return {}
        ordered()
        # The version first: events are cut where it changes, so only rows that have one count.
        known = block.headers[VERSION_KEY].written
        ordered()
        return {name: min(header.written, known) for name, header in block.headers.items()}

    def rewind(self, actor: int, term: int, rows: int) -> None:
        """See ``RowSource.rewind``; nothing is looked at until the block is of that term."""
        self._terms[actor] = term
        self._told[actor] = {name: min(told, rows) for name, told in self._told[actor].items()}


def _runs(block: ActorBlock, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Rows ``start`` to ``stop`` cut where the version changes; those overwritten are left out."""
    if start == stop:
        return iter(())
    return block.version_runs(min(max(start, block.oldest()), stop - 1), stop)


@dataclass(slots=True)
class Outstanding:
    """One invocation a member has not answered yet, and when it was sent (seconds)."""

    call: Invoke
    sent: float


class Invocations:
    """Per member the invocations in flight, in order; each is answered once."""

    def __init__(self) -> None:
        self._queues: dict[int, deque[Outstanding]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, member: int, call: Invoke, now: float) -> None:
        """Book an invocation as sent."""
        self._queues.setdefault(member, deque()).append(Outstanding(call, now))
        self._count += 1

    def answer(self, member: int, firing: int) -> Invoke | None:
        """Book the answer to the member's oldest invocation; None if we asked for nothing such."""
        queue = self._queues.get(member)
        if not queue or queue[0].call.firing != firing:
            return None
        self._count -= 1
        return queue.popleft().call

    def of(self, member: int) -> tuple[Invoke, ...]:
        """What the member has still to answer, oldest first."""
        return tuple(entry.call for entry in self._queues.get(member, ()))

    def through(self, member: int, firing: int) -> tuple[Invoke, ...]:
        """What the member has still to answer up to that firing; () if it has answered that."""
        calls = self.of(member)
        last = next((at for at, call in enumerate(calls) if call.firing == firing), -1)
        return calls[: last + 1]

    def includes(self, member: int, trigger: str) -> bool:
        """Whether the member has still to answer something that this trigger asked for."""
        return any(entry.call.trigger == trigger for entry in self._queues.get(member, ()))

    def last(self, member: int) -> Invoke | None:
        """What the member was asked for last, if it has still to answer that."""
        queue = self._queues.get(member)
        return queue[-1].call if queue else None

    def after(self, member: int, firing: int, non_publishing: Container[str]) -> int:
        """Invocations after that firing, maybe unanswered, without those of ``non_publishing``."""
        calls = [call.firing for call in self.of(member) if call.trigger not in non_publishing]
        return len(calls) - (calls.index(firing) + 1 if firing in calls else 0)

    def restamp(self, member: int, now: float) -> None:
        """The member starts anew: give its invocations their full time again."""
        for entry in self._queues.get(member, ()):
            entry.sent = now

    def __iter__(self) -> Iterator[tuple[int, Invoke]]:
        """Everything that members have still to answer, each one's oldest first."""
        for member, queue in self._queues.items():
            for entry in queue:
                yield member, entry.call

    def overdue(self, now: float, seconds: float) -> Iterator[tuple[int, Invoke]]:
        """Members whose oldest invocation was sent more than ``seconds`` ago."""
        for member, queue in self._queues.items():
            if queue and now - queue[0].sent > seconds:
                yield member, queue[0].call

    def touch(self, member: int, now: float) -> None:
        """The member answered: its next invocation begins only now."""
        queue = self._queues.get(member)
        if queue:
            queue[0].sent = max(queue[0].sent, now)


class Rounds:
    """Rows that actors were told to sample, in rounds of ``steps``, and that they wrote.

    ``granted`` and ``written`` are sums over all actors, kept as such because they are asked for
    with every event, however many actors there are.
    """

    def __init__(self, actors: Iterable[int], steps: int) -> None:
        self._steps = steps
        self._granted = dict.fromkeys(actors, 0)
        self._written = dict.fromkeys(self._granted, 0)
        self._most = 1
        self.granted = self.written = 0

    def grant(self, actor: int) -> int | None:
        """One more round: the row up to which the actor is to sample.

        None if it still has as many rounds to sample as were ever granted at once.
        """
        if self._granted[actor] - self._written[actor] >= self._most * self._steps:
            return None
        self._granted[actor] += self._steps
        self.granted += self._steps
        return self._granted[actor]

    def at_once(self, rounds: int) -> None:
        """So many rounds are granted at once."""
        self._most = max(self._most, rounds)

    def granted_to(self, actor: int) -> int:
        """The row up to which an actor is to sample."""
        return self._granted[actor]

    def written_by(self, actor: int) -> int:
        """Rows an actor has written."""
        return self._written[actor]

    def wrote(self, actor: int, rows: int) -> int:
        """An actor has written ``rows`` rows by now; returns how many that were before."""
        before, self._written[actor] = self._written[actor], rows
        self.written += rows - before
        return before


@dataclass
class _Cursor:
    claimed: int = 0
    acknowledged: int = 0
    used: dict[int, int] = field(default_factory=dict)  # from acknowledged on: start to stop


class Claims:
    """Cursors of consumers over actors: acknowledged only up to the first row still in use.

    What the ``uncounted`` consumers are done with has not been consumed: others need it still.
    """

    def __init__(self, uncounted: Container[str] = ()) -> None:
        self._uncounted = uncounted
        self._cursors: dict[tuple[str, int], _Cursor] = {}
        self._furthest: dict[int, int] = {}
        self._consumed = 0

    def claim(self, consumer: str, claims: Iterable[Claim]) -> None:
        """Book rows as handed over."""
        for claim in claims:
            cursor = self._cursors.setdefault((consumer, claim.actor), _Cursor())
            cursor.claimed = max(cursor.claimed, claim.stop)
            cursor.used.pop(claim.start, None)

    def claimed(self, consumer: str, actor: int) -> int:
        """The row up to which an actor's rows were handed over to a consumer."""
        cursor = self._cursors.get((consumer, actor))
        return cursor.claimed if cursor else 0

    def done(self, consumer: str, claim: Claim) -> tuple[int, int]:
        """Book rows as used; returns the consumer's ``(claimed, acknowledged)`` for that actor."""
        cursor = self._cursors[consumer, claim.actor]
        cursor.used[claim.start] = claim.stop
        while (stop := cursor.used.pop(cursor.acknowledged, None)) is not None:
            cursor.acknowledged = stop
        if consumer not in self._uncounted:
            self._advance(claim.actor, cursor.acknowledged)
        return cursor.claimed, cursor.acknowledged

    def consumed(self) -> int:
        """Rows acknowledged, counted once per actor by its furthest consumer that counts."""
        return self._consumed

    def _advance(self, actor: int, acknowledged: int) -> None:
        # Kept as a running sum: it is asked for with every firing, however many actors there are.
        gained = acknowledged - self._furthest.get(actor, 0)
        if gained > 0:
            self._furthest[actor] = acknowledged
            self._consumed += gained


class Progress:
    """A run's environment steps; ``base`` were made by earlier parts of a resumed run."""

    def __init__(self, plan: Plan, base: int, rounds: Rounds, claims: Claims) -> None:
        self._plan, self._base, self._rounds, self._claims = plan, base, rounds, claims

    @property
    def granted(self) -> int:
        """Steps that actors made or may make."""
        return self._base + self._rounds.granted * self._plan.envs

    @property
    def steps(self) -> int:
        """Steps committed."""
        return self._base + self._rounds.written * self._plan.envs

    @property
    def consumed(self) -> int:
        """Steps the learner is done with; all there are where it claims none."""
        rows = self._claims.consumed() if self._plan.consumers else self._rounds.written
        return self._base + rows * self._plan.envs


class WeightVersions:
    """Per actor the version it holds (-1: none), and whether it binds the newest for a round.

    ``each_round``: without an ``actors.sync`` of their own, actors do so at rollout start. With one
    they keep what they have until that fires, unless a ``max_lag`` of the table, which is the
    stronger promise, would have the rows dropped: then they would be sampled for nothing, and with
    a learner that waits for rows in vain no further version would ever make that trigger fire.
    """

    def __init__(
        self,
        actors: Iterable[int],
        rounds: Rounds,
        claims: Claims,
        max_lags: Sequence[tuple[str, int, int]],
        *,
        each_round: bool,
    ) -> None:
        self.held = dict.fromkeys(actors, -1)
        self._asked = dict(self.held)
        self._rounds, self._claims, self._each_round = rounds, claims, each_round
        self._max_lags = max_lags

    def joined(self, actor: int) -> None:
        """Who was away has missed what others pulled meanwhile."""
        self.held[actor] = self._asked[actor] = -1

    def asked(self, actor: int, newest: int) -> None:
        """The actor is to bind the newest version, or one that is newer by then."""
        self._asked[actor] = newest

    def answered(self, actor: int, version: int) -> None:
        """The actor has done something, with weights of this version."""
        self.held[actor] = version

    def next(self, actor: int) -> int:
        """The version of the next round at the least."""
        return max(self.held[actor], self._asked[actor])

    def due(self, actor: int, trained: int) -> bool:
        """Whether the round that was just granted begins with newer weights.

        ``trained``: the newest version once the learner is done with what was handed over.
        """
        version = self.next(actor)
        return self._each_round or version < 0 or self._too_old(actor, trained - version)

    def _too_old(self, actor: int, behind: int) -> bool:
        """Whether the end of the round would be, even if no update were made of others' rows."""
        stop = self._rounds.granted_to(actor)
        return any(
            behind + (stop - self._claims.claimed(target, actor) - 1) // size > max_lag
            for target, size, max_lag in self._max_lags
        )

    def __repr__(self) -> str:
        return f"<WeightVersions held={self.held}>"
