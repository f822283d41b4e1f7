"""The base classes of all messages, and the two messages that occur in every conversation."""

from __future__ import annotations

import msgspec

from artos.specs.fields import Count, Text

NOTHING = memoryview(b"")
MARK = 0xC1
"""The first byte of a bulk message. No MessagePack begins with it."""


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base class of all messages. A message that is sent has its class name as tag."""


class Bulk(Message, frozen=True):
    """Base class of messages whose ``content`` is not packed; a received one views its frame."""


class Refusal(Message, frozen=True, tag=True):
    """Any → any: a message of yours was refused and changed nothing; ``why`` says the reason.

    ``number`` is that of the message; 0: it has none, or was not understood.
    """

    why: Text
    number: Count = 0


class Restarted(Message, frozen=True):
    """Never sent: a messenger delivers this when a peer has restarted or has forgotten us.

    Messages that were on their way to that peer are lost.
    """
