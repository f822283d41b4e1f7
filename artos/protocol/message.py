"""The roots of all messages between processes, and the two that fit into every conversation."""

from __future__ import annotations

import msgspec

from artos.protocol.fields import Text

NOTHING = memoryview(b"")
MARK = 0xC1
"""The first byte of a bulk message. No MessagePack begins with it."""


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """Root of all messages. Those that are sent have a tag, which is the name of their class."""


class Bulk(Message, frozen=True):
    """Root of those whose ``content`` is not packed; a memoryview is one of what it came in."""


class Refusal(Message, frozen=True, tag=True):
    """Any → any: your last message changed nothing, and why."""

    why: Text


class Restarted(Message, frozen=True):
    """Never sent: a messenger hands it out where its peer is another one than before.

    It has restarted or has forgotten us; what was on its way to the old one is gone.
    """
