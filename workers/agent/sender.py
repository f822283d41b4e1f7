"""Decides what to send next to the replay process: from which block, and whether compressed.

The decisions depend on which rows fired and arrived, how much room there is, how well LZ4
compresses a key, and how fast the link is. Rows are shipped in order. Whenever something may have
been lost they are shipped again, from the first row that has not arrived; the replay process takes
each row once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from artos.buffer.layout import Consumer
from artos.protocol.data import RowsTaken
from artos.transport.chunk import PIECE

SLOW = 125e6
"""Assumed speed of a link (bytes/s) until it is measured: 1 Gbit/s."""
_LEAST = 1024  # bytes; compressing less gains nothing
_TELLING = 256 << 10  # bytes; fewer cross too fast to be timed
_KEY_LASTS, _LINK_LASTS = 1.0, 10.0  # seconds after which a measurement is repeated
_WEIGHT = 0.25
WINDOW = 8 << 20
"""Bytes that may be on their way until the replay process has set a limit."""
_SMALL = 2048  # bytes of a row; smaller keys share chunks, as a small frame costs as much


@dataclass(slots=True)
class _Measured:
    """How well one key compresses."""

    ratio: float
    """Bytes before / bytes after."""
    speed: float
    """Bytes compressed a second."""
    at: float
    """When it was measured."""


@dataclass
class Packing:
    """Decides for each frame whether to compress it. ``enabled=False`` compresses nothing.

    The times of compressing, sending and decompressing are added up, as on machines without an idle
    core. Decompressing is assumed to take as long as compressing; it is faster.
    """

    enabled: bool = True
    _keys: dict[str, _Measured] = field(init=False, repr=False, default_factory=dict)
    _pace: float = field(init=False, repr=False, default=0.0)
    _probed: float = field(init=False, repr=False, default=float("-inf"))

    @property
    def link(self) -> float:
        """Bytes a second that the link carries."""
        return 1 / self._pace if self._pace else SLOW

    def wants(self, key: str, size: int, now: float) -> bool:
        """Whether to compress ``size`` bytes of a key."""
        if not self.enabled or size < _LEAST:
            return False
        if size >= _TELLING and now - self._probed > _LINK_LASTS:
            self._probed = now  # compressed bytes are too few to tell how fast the link is
            return False
        measured = self._keys.get(key)
        if measured is None or now - measured.at > _KEY_LASTS:
            return True
        return 2 / measured.speed + 1 / (measured.ratio * self.link) < 1 / self.link

    def packed(self, key: str, before: int, after: int, seconds: float, now: float) -> bool:
        """Note how fast a key was compressed; returns whether to send the compressed bytes.

        ``seconds`` should be CPU time: time when another process ran says nothing about LZ4.
        """
        self._keys[key] = _Measured(before / after, before / max(seconds, 1e-9), now)
        return after < before

    def crossed(self, size: int, seconds: float) -> None:
        """Note that ``size`` bytes arrived ``seconds`` after those before them."""
        if size >= _TELLING and seconds > 0:
            # A mean of times, not of rates: two answers that come together do not show a fast link.
            pace = seconds / size
            self._pace = pace if not self._pace else self._pace + _WEIGHT * (pace - self._pace)


class Stream(NamedTuple):
    """Keys of one stage that travel in the same chunks."""

    stage: int
    keys: tuple[str, ...]
    row_bytes: int
    """The sum over the keys."""


class Piece(NamedTuple):
    """Rows of an actor to be sent now."""

    actor: int
    term: int
    stream: Stream
    rows: range
    ends: bool
    """Whether no more rows follow for the moment."""

    @property
    def size(self) -> int:
        """Bytes before compression."""
        return len(self.rows) * self.stream.row_bytes


def streams(stages: Sequence[Consumer], row_bytes: Mapping[str, int]) -> tuple[Stream, ...]:
    """An actor's streams: for each stage one with its small keys, then one for each large key."""
    found = []
    for number, stage in enumerate(stages):
        small = tuple(name for name in stage.keys if row_bytes[name] < _SMALL)
        groups = [small, *((name,) for name in stage.keys if name not in small)]
        found += [
            Stream(number, keys, sum(row_bytes[name] for name in keys)) for keys in groups if keys
        ]
    return tuple(found)


@dataclass(slots=True)
class _Flow:
    """How far one stream of an actor is: rows that may be sent, were sent and have arrived."""

    due: int
    sent: int
    arrived: int


@dataclass(slots=True)
class _Shipment:
    """One actor's rows."""

    term: int
    flows: list[_Flow]
    room: int = 0
    """The row up to which the replay buffer has room."""
    known: bool = False
    """Whether a ``RowsTaken`` has come for it since the last greeting."""
    void: bool = False
    """Whether the actor lives elsewhere by now, so that rows from here are not accepted."""


@dataclass
class Sender:
    """Chooses pieces of an actor's rows to be sent next, while not too many are on their way.

    Earlier stages go first, actors in the order in which they became due. An actor for which the
    replay buffer has no room does not hold up the others.
    """

    streams: Sequence[Stream]
    capacity: int
    piece: int = PIECE
    """Bytes of a piece, about."""
    credit: int = WINDOW
    """Most bytes on their way at once."""
    number: int = 0
    """Greetings until now."""
    flight: int = 0
    """Bytes on their way."""
    _shipments: dict[int, _Shipment] = field(init=False, repr=False, default_factory=dict)
    _ready: list[dict[tuple[int, int], None]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._ready = [{} for _ in range(1 + max(stream.stage for stream in self.streams))]

    # -- what there is to ship -----------------------------------------------------------------

    def place(self, actor: int, term: int, due: Sequence[int], arrived: Sequence[int]) -> None:
        """Add an actor that lives here (again); per stage, ``due`` rows fired, ``arrived`` arrived.

        Nothing is sent for the actor before the next greeting is answered.
        """
        self.leave(actor)
        flows = [_Flow(due[s.stage], arrived[s.stage], arrived[s.stage]) for s in self.streams]
        self._shipments[actor] = _Shipment(term, flows)

    def leave(self, actor: int) -> None:
        """Forget an actor, which lives elsewhere."""
        shipment = self._shipments.pop(actor, None)
        if shipment is not None:
            self._rewind(actor, shipment)

    def fire(self, actor: int, stage: int, stop: int) -> None:
        """Have the rows of a stage below ``stop`` shipped."""
        shipment = self._shipments[actor]
        for number, flow in self._flows(shipment):
            if self.streams[number].stage == stage and flow.due < stop:
                flow.due = stop
                self._sort(actor, shipment, number)

    # -- answers of the replay process ---------------------------------------------------------

    def greet(self) -> dict[int, int]:
        """Start again after the rows that have arrived, as others may be lost; returns the terms.

        Send the terms with ``number`` in a ``Greet``, and nothing else until it is answered.
        """
        self.number += 1
        for actor, shipment in self._shipments.items():
            self._rewind(actor, shipment)
        return {actor: shipment.term for actor, shipment in self._shipments.items()}

    def take_report(self, news: RowsTaken) -> dict[int, int]:
        """Take in which rows arrived; returns the rows of each stage that got further."""
        shipment = self._shipments.get(news.actor)
        if shipment is None or shipment.term > news.term:
            return {}
        if shipment.term < news.term:
            self._rewind(news.actor, shipment)
            shipment.void = True
            return {}
        before = self._arrived(shipment)
        self.credit = news.credit or self.credit
        # Messages may overtake each other, and none of these numbers ever falls within a term.
        shipment.room = max(shipment.room, news.room)
        shipment.known = shipment.known or news.answers == self.number > 0
        for number, flow in self._flows(shipment):
            arrived = min(news.written.get(name, 0) for name in self.streams[number].keys)
            if arrived > flow.arrived:
                landed = min(arrived, flow.sent) - flow.arrived
                self.flight -= landed * self.streams[number].row_bytes
                flow.arrived, flow.sent = arrived, max(arrived, flow.sent)
            self._sort(news.actor, shipment, number)
        after = self._arrived(shipment)
        return {stage: rows for stage, rows in after.items() if rows > before[stage]}

    def _arrived(self, shipment: _Shipment) -> dict[int, int]:
        rows: dict[int, int] = {}
        for number, flow in self._flows(shipment):
            stage = self.streams[number].stage
            rows[stage] = min(flow.arrived, rows.get(stage, flow.arrived))
        return rows

    # -- what to send --------------------------------------------------------------------------

    def next_piece(self) -> Piece | None:
        """The next piece, which counts as sent from now on; None if nothing can be sent now."""
        for ready in self._ready:
            for actor, number in ready:
                shipment, stream = self._shipments[actor], self.streams[number]
                flow = shipment.flows[number]
                most = max(1, self.piece // stream.row_bytes)
                wrap = self.capacity - flow.sent % self.capacity
                limit = min(flow.due, shipment.room)
                rows = range(flow.sent, min(limit, flow.sent + most, flow.sent + wrap))
                size = len(rows) * stream.row_bytes
                if self.flight and self.flight + size > self.credit:
                    return None
                self.flight += size
                flow.sent = rows.stop
                self._sort(actor, shipment, number)
                return Piece(actor, shipment.term, stream, rows, rows.stop == limit)
        return None

    @property
    def waits(self) -> bool:
        """Whether an answer is outstanding: about rows on their way, or about an actor."""
        return self.flight > 0 or not all(each.known for each in self._live())

    @property
    def settled(self) -> bool:
        """Whether everything that fired and can arrive has arrived."""
        flows = (flow for each in self._live() for flow in each.flows)
        return all(flow.arrived >= flow.due for flow in flows)

    # ------------------------------------------------------------------------------------------

    def _live(self) -> Iterator[_Shipment]:
        return (each for each in self._shipments.values() if not each.void)

    def _flows(self, shipment: _Shipment) -> Iterator[tuple[int, _Flow]]:
        return enumerate(shipment.flows)

    def _sort(self, actor: int, shipment: _Shipment, number: int) -> None:
        """Have a stream among those that can be sent if, and only if, it has something to send."""
        flow, ready = shipment.flows[number], self._ready[self.streams[number].stage]
        if shipment.known and flow.sent < min(flow.due, shipment.room):
            ready.setdefault((actor, number))
        else:
            ready.pop((actor, number), None)

    def _rewind(self, actor: int, shipment: _Shipment) -> None:
        shipment.known = False
        for number, flow in self._flows(shipment):
            self.flight -= (flow.sent - flow.arrived) * self.streams[number].row_bytes
            flow.sent = flow.arrived
            self._sort(actor, shipment, number)
