"""What transfer agents and replay processes say to each other, and what those beside them say.

Rows go one way, weights the other.
"""

from __future__ import annotations

from msgspec import field

from artos.protocol.fields import Count, Line, Name, Seconds, Small, Version, Word
from artos.protocol.message import NOTHING, Bulk, Message

# -- transfer agent <-> replay buffer: experience and weights --------------------------------------


class Greet(Message, frozen=True, tag=True):
    """Agent → replay: who I am; answered with ``RowsTaken`` of every actor named in ``terms``.

    What was sent before the greeting of the same ``number`` was answered may be lost.
    """

    node: Name
    epoch: Count
    terms: dict[Small, Count]
    number: Count = 0


class Chunk(Bulk, frozen=True, tag=True):
    """Agent → replay: rows ``start`` to ``stop`` of some keys of one actor, key after key.

    ``raw`` has per key the bytes of its rows before compression, ``sizes`` those in ``content``;
    ``packed`` says which are LZ4 blocks. Rows may come twice; they are taken once. ``ends``: no
    more rows of these keys follow for now, so whoever waits for them should look.
    """

    actor: Small
    term: Count
    start: Count
    stop: Count
    keys: tuple[Line, ...]
    raw: tuple[Count, ...]
    packed: tuple[bool, ...]
    ends: bool = True
    sizes: tuple[Count, ...] = ()
    content: memoryview = NOTHING


class RowsTaken(Message, frozen=True, tag=True):
    """Replay → agent: rows of an actor taken so far, per key; it may send rows below ``room``.

    ``credit`` bytes (before compression) may be on their way at a time, of all its actors.
    ``answers`` is the number of the greeting that asked, or 0.
    """

    actor: Small
    term: Count
    written: dict[Line, Count]
    room: Count
    credit: Count = 0
    answers: Count = 0


class Pull(Message, frozen=True, tag=True):
    """Agent → replay: I have weights of version ``have``; answered once there are newer ones."""

    have: Version


class Weights(Bulk, frozen=True, tag=True):
    """Replay → agent: a piece of the weights of a version, numbers of type ``dtype``.

    It begins at byte ``start`` of ``total``; ``checksum`` is the XXH3 of ``content``. The pieces of
    a version come in order and nothing comes between them.
    """

    version: Count
    dtype: Line
    checksum: Word
    start: Count
    total: Count
    content: memoryview = NOTHING


# -- run process or executor -> its data process (ipc, same machine) -------------------------------


class Terms(Message, frozen=True, tag=True):
    """Run → replay, executor → agent: the term of each actor that has a place (here), and its base.

    ``nodes`` says to a replay process which node an actor's rows may come from ("": none).
    """

    terms: dict[Small, Count]
    bases: dict[Small, Count]
    nodes: dict[Small, Line] = field(default_factory=dict)


class ReplayUp(Message, frozen=True, tag=True):
    """Replay → run: the terms are in force and agents may connect to ``endpoint``."""

    endpoint: Line


class Nudge(Message, frozen=True, tag=True):
    """Run → replay: rows released, a version published. Executor → agent: rows committed."""


class Finish(Message, frozen=True, tag=True):
    """Executor → agent: ship what is committed within ``seconds``, then end."""

    seconds: Seconds
