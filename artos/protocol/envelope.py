"""What is around every message on a socket: whose it is, and which piece of what it was told."""

from __future__ import annotations

import struct

from artos.errors import BadMessage
from artos.protocol.fields import LIVES, MOST, Count, Life
from artos.protocol.message import MARK, NOTHING, Bulk

_FRONT = struct.Struct(">BxxQQQQ?")  # the two zeros are a length that no other message has


class Envelope(Bulk, frozen=True, tag=True):
    """Any → any, around all that posts send; see ``artos.transport.channel.Channel``.

    ``content`` is piece ``number`` (from 1) of what ``session`` tells session ``of``, ``more``
    pieces of the same message follow; 0: a beat, without content. ``took`` pieces of ``of``'s
    have been taken. ``of`` 0: I have not heard you yet.
    """

    session: Life
    of: Life
    number: Count = 0
    took: Count = 0
    more: bool = False
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
            BadMessage: it is too short, or a number is out of range.
        """
        if len(frame) < _FRONT.size:
            raise BadMessage(f"an Envelope of {len(frame)} bytes")
        _, session, of, number, took, more = _FRONT.unpack_from(frame)
        if session >= LIVES or of >= LIVES or number > MOST or took > MOST:
            raise BadMessage(f"an Envelope with {max(session, of, number, took)}")
        return cls(session, of, number, took, more, frame[_FRONT.size :])
