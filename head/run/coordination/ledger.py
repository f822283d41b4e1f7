"""The books of a run: rows written, rows and rounds handed out."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from artos.buffer.actor_block import ActorBlock
from artos.buffer.mailbox import ordered
from artos.plan import Plan
from artos.protocol.invocations import Claim, Invoke
from artos.spec import VERSION_KEY
from triggers.base import Arrived, Committed

Rows = Committed | Arrived


class RowSource(Protocol):
    """Looks for new rows in an actor's block.

    ``in_place``: actors write to these blocks themselves, so an actor waits for room in its block.
    """

    in_place: bool

    def news(self, actor: int) -> tuple[int, list[Rows]]:
        """Number of rows present in all keys, and events for rows new since the last call."""

    def rewind(self, actor: int, term: int, rows: int) -> None:
        """From row ``rows`` on, the actor's rows come from its next place (``term``)."""


class Commits:
    """Head and workers share the blocks: rows are in the replay buffer as soon as committed.

    With a transfer trigger (``shipped``) rows only count as arrived once that trigger has fired.
    """

    in_place = True
    kept: ClassVar[tuple[str, ...]] = ("_told",)

    def __init__(self, blocks: Mapping[int, ActorBlock], *, shipped: bool) -> None:
        self._blocks, self._shipped = blocks, shipped
        self._told = dict.fromkeys(blocks, 0)

    def news(self, actor: int) -> tuple[int, list[Rows]]:
        """See ``RowSource.news``."""
        block = self._blocks[actor]
        # Some keys are further than others while a commit is under way: their rows are not told
        # before they are counted, or whoever hears of them is ahead of the books.
        rows = block.written
        told, self._told[actor] = self._told[actor], rows
        events: list[Rows] = []
        for stop, version in _runs(block, told, rows):
            upto = dict.fromkeys(block.headers, stop)
            events.append(Committed(actor, upto, version))
            if not self._shipped:
                events.append(Arrived(actor, upto, version))
        return rows, events

    def rewind(self, actor: int, term: int, rows: int) -> None:
        """Only called for rows of an earlier part of the run: actors of one machine do not move."""
        self._told[actor] = rows


class Arrivals:
    """Rows come from worker nodes, key by key, into the head's blocks; only arrivals count.

    The block's ``incarnation`` is the term of the place that its rows come from. While it is not
    the term of the actor's present place, nothing in the block is read.
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
        # The version key first: events are cut where it changes, so only rows with a version count.
        known = block.headers[VERSION_KEY].written
        ordered()
        return {name: min(header.written, known) for name, header in block.headers.items()}

    def rewind(self, actor: int, term: int, rows: int) -> None:
        """See ``RowSource.rewind``; nothing is read until the block has that term."""
        self._terms[actor] = term
        self._told[actor] = {name: min(told, rows) for name, told in self._told[actor].items()}


def _runs(block: ActorBlock, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Rows ``start`` to ``stop``, cut where the version changes, without overwritten rows."""
    if start == stop:
        return iter(())
    return block.version_runs(min(max(start, block.oldest()), stop - 1), stop)


@dataclass(slots=True)
class Outstanding:
    """An invocation that the member has not answered yet, and when it was sent (seconds)."""

    call: Invoke
    sent: float


class Invocations:
    """The invocations in flight of each member, in order; each is answered once."""

    kept: ClassVar[tuple[str, ...]] = ("_queues", "_count")

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
        """Book the answer to the member's oldest invocation; None if that is of another firing."""
        queue = self._queues.get(member)
        if not queue or queue[0].call.firing != firing:
            return None
        self._count -= 1
        return queue.popleft().call

    def of(self, member: int) -> tuple[Invoke, ...]:
        """The invocations that the member has still to answer, oldest first."""
        return tuple(entry.call for entry in self._queues.get(member, ()))

    def through(self, member: int, firing: int) -> tuple[Invoke, ...]:
        """The member's unanswered invocations up to that firing; () if that one is answered."""
        calls = self.of(member)
        last = next((at for at, call in enumerate(calls) if call.firing == firing), -1)
        return calls[: last + 1]

    def only(self, member: int | None) -> bool:
        """Whether nobody else has an invocation to answer."""
        return len(self) == (0 if member is None else len(self.of(member)))

    def drop(self, member: int) -> None:
        """The member answers nothing any more."""
        self._count -= len(self._queues.pop(member, ()))

    def count(self, member: int, trigger: str) -> int:
        """Number of invocations of this trigger that the member has still to answer."""
        return sum(entry.call.trigger == trigger for entry in self._queues.get(member, ()))

    def last(self, member: int) -> Invoke | None:
        """The member's newest unanswered invocation."""
        queue = self._queues.get(member)
        return queue[-1].call if queue else None

    def after(self, member: int, firing: int, non_publishing: Container[str]) -> int:
        """Number of unanswered invocations after that firing, without ``non_publishing`` ones."""
        calls = [call.firing for call in self.of(member) if call.trigger not in non_publishing]
        return len(calls) - (calls.index(firing) + 1 if firing in calls else 0)

    def restamp(self, member: int, now: float) -> None:
        """The member is restarted: give its invocations their full time again."""
        for entry in self._queues.get(member, ()):
            entry.sent = now

    def __iter__(self) -> Iterator[tuple[int, Invoke]]:
        """All unanswered invocations with their members, the oldest of each member first."""
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
    """Rows granted to actors, in rounds of ``steps``, and rows that they wrote.

    ``granted`` and ``written`` are sums over all actors, kept as running sums because they are
    read with every event, however many actors there are.
    """

    kept: ClassVar[tuple[str, ...]] = ("_granted", "_written", "_most", "granted", "written")

    def __init__(self, actors: Iterable[int], steps: int) -> None:
        self._steps = steps
        self._granted = dict.fromkeys(actors, 0)
        self._written = dict.fromkeys(self._granted, 0)
        self._most = 1
        self.granted = self.written = 0

    def grant(self, actor: int) -> int | None:
        """Grant one more round; returns the row up to which the actor is to sample.

        None if the actor still has as many rounds to sample as were ever granted at once.
        """
        if self._granted[actor] - self._written[actor] >= self._most * self._steps:
            return None
        self._granted[actor] += self._steps
        self.granted += self._steps
        return self._granted[actor]

    def begin(self, actor: int, row: int) -> None:
        """The actor's first row here is ``row``; those before are of an earlier part of the run."""
        self._granted[actor] = self._written[actor] = row

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
        """An actor has written ``rows`` rows by now; returns the number before."""
        before, self._written[actor] = self._written[actor], rows
        self.written += rows - before
        return before


@dataclass
class _Cursor:
    claimed: int = 0
    acknowledged: int = 0
    used: dict[int, int] = field(default_factory=dict)  # start → stop, from acknowledged on


class Claims:
    """Each consumer's cursors over each actor's rows: acknowledged up to the first row in use.

    Rows that an ``uncounted`` consumer is done with are not consumed: other consumers need them.
    """

    kept: ClassVar[tuple[str, ...]] = ("_cursors", "_furthest", "_consumed")

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
        """Rows acknowledged: the sum over actors of the furthest consumer that counts."""
        return self._consumed

    def _advance(self, actor: int, acknowledged: int) -> None:
        # A running sum, because it is read with every firing, however many actors there are.
        gained = acknowledged - self._furthest.get(actor, 0)
        if gained > 0:
            self._furthest[actor] = acknowledged
            self._consumed += gained


class Progress:
    """A run's environment steps; ``base`` were made by earlier parts of a resumed run."""

    kept: ClassVar[tuple[str, ...]] = ("_base",)

    def __init__(self, plan: Plan, base: int, rounds: Rounds, claims: Claims) -> None:
        self._plan, self._base, self._rounds, self._claims = plan, base, rounds, claims

    @property
    def granted(self) -> int:
        """Steps that actors made or may make."""
        return self._base + self._rounds.granted * self._plan.envs

    @property
    def made(self) -> int:
        """Steps committed by this part of the run."""
        return self._rounds.written * self._plan.envs

    @property
    def steps(self) -> int:
        """Steps committed."""
        return self._base + self.made

    @property
    def consumed(self) -> int:
        """Steps that the learner is done with; all steps if it claims no rows."""
        rows = self._claims.consumed() if self._plan.consumers else self._rounds.written
        return self._base + rows * self._plan.envs
