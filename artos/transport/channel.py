"""Ordered messages, each exactly once, over a link that loses, repeats and reorders. Pure.

Each end numbers its sessions (a later session has a larger number). Messages are valid for one
pair of sessions only, so nothing of an earlier session is ever taken for a later one.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass

import msgspec

from artos.errors import BadMessage, MailboxFull
from artos.protocol import codec
from artos.protocol.message import MARK, NOTHING, Message
from artos.specs.fields import MOST, SESSIONS, Count, SessionNumber

BEAT = 1.0
"""Seconds after which an end with nothing to send reports that it is alive."""

PIECE = 1 << 14
"""Most bytes of a message in one frame."""

_LAST_SESSION = SESSIONS - 1
_RESEND = 1.0  # seconds without progress, though the peer is heard
_PIECES_AHEAD = 64  # sent and not yet acknowledged: an urgent message waits for 1 MiB at most
_MOST_QUEUED = 1 << 29  # bytes
_OVERHEAD = 256  # bytes that a piece costs besides its content
_FRONT = struct.Struct(">BxxQQQQ?")  # the two zeros are a header length that no message has
_BEGINS = bytes((MARK, 0, 0))


class Envelope(msgspec.Struct, frozen=True):
    """What surrounds every piece of a message: the two sessions, and the number of the piece."""

    session: SessionNumber
    """The sender's session."""
    of: SessionNumber
    """The peer's session that this is for; 0 if the peer was not heard yet."""
    number: Count = 0
    """The number of the piece, from 1, in what is sent to that session; 0: a beat, no content."""
    took: Count = 0
    """How many pieces of session ``of`` have been taken."""
    more: bool = False
    """Whether the next piece belongs to the same message."""
    content: memoryview = NOTHING

    def packed(self) -> bytes:
        """The envelope as one frame."""
        return (
            _FRONT.pack(MARK, self.session, self.of, self.number, self.took, self.more)
            + self.content
        )

    @classmethod
    def unpacked(cls, frame: memoryview) -> Envelope:
        """The envelope of a frame.

        Raises:
            BadMessage: the frame is too short, or a number is out of range.
        """
        if len(frame) < _FRONT.size:
            raise BadMessage(f"an Envelope of {len(frame)} bytes")
        _, session, of, number, took, more = _FRONT.unpack_from(frame)
        if session >= SESSIONS or of >= SESSIONS or number > MOST or took > MOST:
            raise BadMessage(f"an Envelope with {max(session, of, number, took)}")
        return cls(session, of, number, took, more, frame[_FRONT.size :])


def framed(content: Envelope | Message) -> bytes:
    """An envelope, or a message that needs no envelope, as one frame."""
    return content.packed() if isinstance(content, Envelope) else codec.encode(content)


def opened(frame: bytes) -> Envelope | Message:
    """The envelope or message in a frame.

    Raises:
        BadMessage: the frame is neither an envelope nor a valid message.
    """
    if frame[: len(_BEGINS)] == _BEGINS:
        return Envelope.unpacked(memoryview(frame))
    return codec.decode(frame)


@dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of a message; ``more`` pieces of it follow."""

    content: memoryview
    more: bool


class Channel:
    """One end of a channel: a message given to ``put`` is returned by ``hear`` at the other end."""

    def __init__(self, session: int, peer: str, most: int = _MOST_QUEUED) -> None:
        self.session, self.peer = session, peer
        self.usurped = False
        """Whether another process talks to the peer under our name."""
        self._most = most
        self._theirs = 0
        self._known = False  # whether this session of the peer knows ours
        self._queue: deque[Fragment] = deque()
        self._bytes = 0
        self._part = bytearray()  # pieces taken of an incomplete message
        self._next = 1
        self._renumber()
        self._spoke_at = self._moved_at = float("-inf")
        self._heard = False  # whether the peer was heard since ``_moved_at``

    @property
    def idle(self) -> bool:
        """Whether the peer has taken everything."""
        return not self._queue

    @property
    def queued(self) -> int:
        """Bytes that the peer has not taken yet."""
        return self._bytes

    def put(self, message: bytes) -> None:
        """Queue a message.

        Raises:
            MailboxFull: the peer has taken nothing for too long, or the message is too large.
        """
        whole, starts = memoryview(message), range(0, max(1, len(message)), PIECE)
        pieces = [Fragment(whole[at : at + PIECE], at + PIECE < len(message)) for at in starts]
        cost = len(message) + _OVERHEAD * len(pieces)
        if self._bytes + cost > self._most:
            raise MailboxFull(f"to {self.peer}", self._bytes)
        self._bytes += cost
        self._queue.extend(pieces)

    def meet(self, envelope: Envelope) -> bool:
        """Take note of the sender's session; True if it is later than the one known so far.

        Raises:
            BadMessage: it names our last possible session, after which we could begin no other.
        """
        if envelope.of >= _LAST_SESSION:
            raise BadMessage(f"no end has had as many sessions as {envelope.of}")
        if envelope.session >= self._theirs and envelope.of > self.session:
            # The peer knows a session larger than ours: an earlier one, or another process's.
            if self._known:
                self.usurped = True
            else:
                self.session = envelope.of + 1
                self._renumber()
        if envelope.session <= self._theirs:
            return False
        later = self._theirs != 0
        self._theirs, self._known = envelope.session, False
        self._renumber()
        if later:
            self._queue.clear()
            self._bytes = 0
        return later

    def is_former(self, envelope: Envelope) -> bool:
        """Whether the envelope is of an earlier session of the peer than the one known."""
        return envelope.session < self._theirs

    def beat(self) -> Envelope:
        """An envelope that says that we are alive, and which session of the peer we know."""
        return self._envelope(0)

    def hear(self, envelope: Envelope, now: float, room: bool = True) -> bytes | None:
        """Take an envelope; returns the message that it completes, if any.

        Without ``room`` its content is not taken; the peer will send it again.

        Raises:
            BadMessage: the peer acknowledges what was never sent, or sends too much at once.
        """
        if (envelope.session, envelope.of) != (self._theirs, self.session):
            self._owes = True
            return None
        self._known = self._heard = True
        if envelope.took > self._acknowledged + len(self._queue):
            raise BadMessage(f"piece {envelope.took} was acknowledged and never sent")
        while self._acknowledged < envelope.took:
            self._bytes -= len(self._queue.popleft().content) + _OVERHEAD
            self._acknowledged += 1
            self._moved_at = now
        self._next = max(self._next, self._acknowledged + 1)
        return self._completed(envelope) if envelope.number and room else None

    def speak(self, now: float) -> list[Envelope]:
        """The envelopes to send now; [] if none are due."""
        if self.usurped:
            return []
        if self._is_stuck(now):
            self._next = self._acknowledged + 1
        envelopes = []
        ahead, due = self._next - self._acknowledged - 1, min(len(self._queue), _PIECES_AHEAD)
        for place in range(ahead, due if self._theirs else 0):
            if place == 0:
                self._moved_at, self._heard = now, False
            piece = self._queue[place]
            envelopes.append(self._envelope(self._next, piece.more, piece.content))
            self._next += 1
        if not envelopes and (self._owes or now - self._spoke_at >= BEAT):
            envelopes.append(self._envelope(0))
        if envelopes:
            self._spoke_at, self._owes = now, False
        return envelopes

    def unsent(self, envelope: Envelope) -> None:
        """This envelope of ``speak`` and those after it were not sent: return them again."""
        self._owes = True
        if envelope.number:
            self._next = min(self._next, max(envelope.number, self._acknowledged + 1))

    def _envelope(self, number: int, more: bool = False, content: memoryview = NOTHING) -> Envelope:
        return Envelope(self.session, self._theirs, number, self._took, more, content)

    def _is_stuck(self, now: float) -> bool:
        # Only if the peer is heard: nothing is sent twice into a cut link.
        return self._heard and now - self._moved_at >= _RESEND

    def _completed(self, envelope: Envelope) -> bytes | None:
        """The message that this piece completes, None if it completes none."""
        self._owes = True
        if envelope.number != self._took + 1:
            return None
        if len(self._part) + len(envelope.content) > self._most:
            raise BadMessage(f"a message of more than {self._most} bytes")
        self._took += 1
        self._part += envelope.content
        if envelope.more:
            return None
        message = bytes(self._part)
        self._part.clear()
        return message

    def _renumber(self) -> None:
        self._acknowledged, self._next, self._took = 0, 1, 0
        self._part.clear()
        self._owes = True
