"""Sender and receiver over a link that loses, repeats and reorders, while either end starts anew.

Frames are read when they are delivered, as ZeroMQ reads shared memory when it sends: so a row that
was released too early would arrive with another row's content.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from artos.buffer.layout import Consumer
from artos.protocol.data import Chunk, Greet, RowsTaken
from head.replay.receiver import ActorState, Receiver
from workers.agent.sender import Piece, Sender, streams

ACTORS = (0, 1)
STAGES = (
    Consumer("transfer.0", ("rewards", "version")),
    Consumer("transfer.1", ("frames", "ages")),
)
ROW_BYTES = {"rewards": 4, "version": 8, "frames": 4096, "ages": 1}
STREAMS = streams(STAGES, ROW_BYTES)
ME = "node"

Row = tuple[int, str, int]
"""Term, key and step that a row was written for."""


@dataclass
class Cache:
    """An actor's block on the worker: a ring per key, and the cursors that outlive the agent."""

    term: int
    base: int
    capacity: int
    written: int
    due: list[int]
    arrived: list[int]
    rings: dict[str, dict[int, Row]] = field(default_factory=lambda: {k: {} for k in ROW_BYTES})

    @property
    def free(self) -> int:
        return min(self.arrived) + self.capacity - self.written

    def write(self, rows: int) -> None:
        for step in range(self.written, self.written + rows):
            for key, ring in self.rings.items():
                ring[step % self.capacity] = (self.term, key, step)
        self.written += rows

    def read(self, key: str, step: int) -> Row | None:
        return self.rings[key].get(step % self.capacity)


@dataclass
class Replica:
    """An actor's block on the head: what was taken, and what consumers released."""

    term: int = 1
    written: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ROW_BYTES, 0))
    rows: dict[str, list[Row | None]] = field(default_factory=lambda: {k: [] for k in ROW_BYTES})
    released: int = 0

    @property
    def whole(self) -> int:
        return min(self.written.values())


class Link(RuleBasedStateMachine):
    """Everything is a step of its own: committing, firing, sending, losing, dying, moving."""

    @initialize(capacity=st.integers(3, 12), credit=st.integers(1, 30_000), overwrite=st.booleans())
    def begin(self, capacity: int, credit: int, overwrite: bool) -> None:
        self.capacity, self.credit, self.overwrite = capacity, credit, overwrite
        self.caches = {a: Cache(1, 0, capacity, 0, [0, 0], [0, 0]) for a in ACTORS}
        self.replicas = {actor: Replica() for actor in ACTORS}
        self.up: list[tuple[Any, Cache | None]] = []
        self.down: list[RowsTaken] = []
        self.start_sender()
        self.start_receiver()

    # -- both ends -----------------------------------------------------------------------------

    @rule()
    def start_sender(self) -> None:
        self.sender = Sender(STREAMS, self.capacity, piece=9000, credit=self.credit)
        for actor, cache in self.caches.items():
            self.sender.place(actor, cache.term, cache.due, cache.arrived)

    @rule()
    def start_receiver(self) -> None:
        self.receiver = Receiver(1, ROW_BYTES, self.state, lambda why: None)

    def state(self, actor: int) -> ActorState:
        replica = self.replicas[actor]
        held = replica.whole if self.overwrite else replica.released
        return ActorState(replica.term, replica.written, held + self.capacity)

    @rule()
    def greet(self) -> None:
        terms = self.sender.greet()
        self.up.append((Greet("node", 1, terms, self.sender.number), None))

    # -- rows ----------------------------------------------------------------------------------

    @rule(actor=st.sampled_from(ACTORS), rows=st.integers(1, 5))
    def commit(self, actor: int, rows: int) -> None:
        self.commit_rows(self.caches[actor], rows)

    def commit_rows(self, cache: Cache, most: int) -> None:
        cache.write(min(most, cache.free))

    @rule(actor=st.sampled_from(ACTORS), stages=st.sampled_from([(0,), (0, 1)]))
    def fire(self, actor: int, stages: tuple[int, ...]) -> None:
        self.fire_stages(actor, stages)

    def fire_stages(self, actor: int, stages: tuple[int, ...]) -> None:
        cache = self.caches[actor]
        for stage in stages:
            cache.due[stage] = cache.written
            self.sender.fire(actor, stage, cache.written)

    @rule(arrive=st.lists(st.integers(0, 6), max_size=4))
    def work(self, arrive: list[int]) -> None:
        """All goes well for a while: as much as there is room for, and some of it arrives."""
        self.greet()
        self.deliver_in_order()
        self.answer_in_order()
        for count in arrive:
            for actor, cache in self.caches.items():
                self.commit_rows(cache, self.capacity)
                self.fire_stages(actor, (0, 1))
            while self.send_one():
                pass
            for _ in range(min(count, len(self.up))):
                self.receive(*self.up.pop(0))
            self.answer_in_order()

    @rule(actor=st.sampled_from(ACTORS), share=st.integers(1, 4))
    def release(self, actor: int, share: int) -> None:
        replica = self.replicas[actor]
        replica.released += (replica.whole - replica.released) // share
        self.report(actor)

    @rule(actor=st.sampled_from(ACTORS))
    def move(self, actor: int) -> None:
        """The actor lives elsewhere; for simplicity that is this node again."""
        replica = self.replicas[actor]
        replica.term += 1
        base = replica.whole
        replica.written = dict.fromkeys(ROW_BYTES, base)
        for rows in replica.rows.values():
            del rows[base:]
        self.caches[actor] = Cache(replica.term, base, self.capacity, base, [base] * 2, [base] * 2)
        self.sender.place(actor, replica.term, [base] * 2, [base] * 2)

    # -- the link ------------------------------------------------------------------------------

    @rule(most=st.integers(1, 10))
    def send(self, most: int) -> None:
        for _ in range(most):
            if not self.send_one():
                return

    def send_one(self) -> bool:
        piece = self.sender.next_piece()
        if piece is not None:
            self.up.append((chunk_of(piece), self.caches[piece.actor]))
        return piece is not None

    @precondition(lambda self: self.up)
    @rule(data=st.data(), keep=st.booleans())
    def deliver(self, data: st.DataObject, keep: bool) -> None:
        at = data.draw(st.integers(0, len(self.up) - 1))
        self.receive(*(self.up[at] if keep else self.up.pop(at)))

    @rule()
    def deliver_in_order(self) -> None:
        while self.up:
            self.receive(*self.up.pop(0))

    @precondition(lambda self: self.down)
    @rule(data=st.data(), keep=st.booleans())
    def answer(self, data: st.DataObject, keep: bool) -> None:
        at = data.draw(st.integers(0, len(self.down) - 1))
        self.hear(self.down[at] if keep else self.down.pop(at))

    @rule()
    def answer_in_order(self) -> None:
        while self.down:
            self.hear(self.down.pop(0))

    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        for queue in (self.up, self.down):
            keep = data.draw(st.integers(0, len(queue)))
            del queue[keep:]

    def receive(self, message: Any, cache: Cache | None) -> None:
        if isinstance(message, Greet):
            self.down += self.receiver.greet(ME, message)
            return
        assert cache is not None
        replica = self.replicas[message.actor]
        sizes = [ROW_BYTES[key] * (message.stop - message.start) for key in message.keys]
        rows = self.receiver.admit(ME, message, sizes)
        assert not rows or message.term == replica.term == cache.term
        for key in message.keys:
            assert not rows or rows.start == replica.written[key] == len(replica.rows[key])
            replica.rows[key] += [cache.read(key, step) for step in rows]
            replica.written[key] = max(replica.written[key], rows.stop)
        if rows:
            self.report(message.actor)

    def report(self, actor: int) -> None:
        news = self.receiver.rows_taken(actor)
        assert news is not None
        self.down.append(news)

    def hear(self, news: RowsTaken) -> None:
        for stage, rows in self.sender.take_report(news).items():
            self.caches[news.actor].arrived[stage] = rows
        self.sender.credit = self.credit  # the receiver would allow far more than these few rows

    # -- what always holds ---------------------------------------------------------------------

    @invariant()
    def every_row_is_itself(self) -> None:
        for replica in self.replicas.values():
            for key, rows in replica.rows.items():
                assert len(rows) == replica.written[key]
                for step, row in enumerate(rows):
                    assert row is not None
                    assert row[1:] == (key, step)
                    assert row[0] <= replica.term

    @invariant()
    def nothing_is_taken_beyond_the_room(self) -> None:
        for replica in self.replicas.values():
            held = replica.whole if self.overwrite else replica.released
            assert max(replica.written.values()) <= held + self.capacity

    @invariant()
    def what_is_on_its_way_is_bounded(self) -> None:
        largest = max(9000, *(stream.row_bytes for stream in STREAMS))
        assert 0 <= self.sender.flight <= max(self.credit, largest)

    def teardown(self) -> None:
        """Over a link that works again everything that fired arrives."""
        if not hasattr(self, "caches"):
            return
        self.greet()
        for _ in range(200):
            self.deliver_in_order()
            self.answer_in_order()
            while self.send_one():
                pass
            for actor in ACTORS:
                self.release(actor, 1)
        for actor, cache in self.caches.items():
            for number, stage in enumerate(STAGES):
                for key in stage.keys:
                    assert self.replicas[actor].written[key] >= cache.due[number]
        assert self.sender.settled


def chunk_of(piece: Piece) -> Chunk:
    keys, rows = piece.stream.keys, piece.rows
    raw = tuple(ROW_BYTES[key] * len(rows) for key in keys)
    return Chunk(
        piece.actor, piece.term, rows.start, rows.stop, keys, raw, (False,) * len(keys), piece.ends
    )


TestLink = Link.TestCase
TestLink.settings = settings(max_examples=150, stateful_step_count=60)
