"""Messages between transfer agents and replay processes, and from the processes that start them.

Rows go from agent to replay process, weights the other way.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from artos.protocol.message import NOTHING, Bulk, Message
from artos.specs.fields import Count, Line, Name, Seconds, Small, Version, Word
from artos.specs.keys import PARAMS
from artos.specs.members import LEARNER

# -- transfer agent <-> replay buffer: experience and weights --------------------------------------

Answered = Annotated[tuple[tuple[Small, Name, Count], ...], Meta(max_length=1000)]
"""Servers by their numbers in the plan, a process of each on a node, bytes of what it answered."""


class Greet(Message, frozen=True, tag=True):
    """Agent → replay: my name; answered with ``RowsTaken`` of every actor in ``terms``.

    What is sent before the greeting of this ``number`` is answered may be lost. For each process of
    a server of which something is sent it is answered with ``AnswersTaken``, too: so much of what
    they have ``answered`` is known to have been taken.
    """

    node: Name
    epoch: Count
    terms: dict[Small, Count]
    number: Count = 0
    answered: Answered = ()


class Chunk(Bulk, frozen=True, tag=True):
    """Agent → replay: rows ``start`` to ``stop`` of some keys of one actor, key after key.

    ``raw`` has the bytes of each key's rows before compression, ``sizes`` those in ``content``;
    ``packed`` says which keys are LZ4 blocks. Rows may come twice; they are taken once. ``ends``:
    no more rows of these keys follow for now, so the run process should be woken. They were made
    by what servers had ``answered``, so many bytes of each process: before those have been taken,
    nor are the rows.
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
    answered: Answered = ()


class AnswersPiece(Bulk, frozen=True, tag=True):
    """Agent → replay: what a process of the server with this number answered, to be recorded.

    It begins at byte ``start`` of what that process has answered, in frames of
    ``artos.runs.answers``. A process begins with byte 0 once all of the one before was taken.
    """

    server: Small
    process: Name
    start: Count
    content: memoryview = NOTHING


class AnswersTaken(Message, frozen=True, tag=True):
    """Replay → agent: so many bytes of what that process answered have been taken so far.

    ``answers`` is the number of the greeting that this answers, or 0.
    """

    process: Name
    taken: Count
    answers: Count = 0


class RowsTaken(Message, frozen=True, tag=True):
    """Replay → agent: rows of an actor taken so far, per key; rows below ``room`` may be sent.

    At most ``credit`` bytes (before compression) of all the agent's actors may be under way.
    ``answers`` is the number of the greeting that this answers, or 0.
    """

    actor: Small
    term: Count
    written: dict[Line, Count]
    room: Count
    credit: Count = 0
    answers: Count = 0


class Pull(Message, frozen=True, tag=True):
    """Agent → replay: I have weights of version ``have``; answered once there are newer ones.

    ``past`` are the past versions that are kept here, ``learner`` is whose weights they are.
    """

    have: Version
    past: tuple[Count, ...] = ()
    learner: Line = LEARNER


class Weights(Bulk, frozen=True, tag=True):
    """Replay → agent: a piece of an array of a version, numbers of type ``dtype``.

    It begins at byte ``start`` of ``total``; ``checksum`` is the XXH3 of ``content``. The pieces of
    a version come in order, array by array, with nothing between them. The versions of the
    ``past`` that belong to it have come before, as pieces that are ``kept``.
    """

    version: Count
    dtype: Line
    checksum: Word
    start: Count
    total: Count
    content: memoryview = NOTHING
    array: Line = PARAMS
    kept: bool = False
    past: tuple[Count, ...] = ()


# -- run process or executor -> its data process (ipc, same machine) -------------------------------


class Terms(Message, frozen=True, tag=True):
    """Run → replay, executor → agent: the term of each actor that has a place (here).

    Only a replay process is told the ``bases``, and from which node an actor's rows may come
    (``nodes``; "": none).
    """

    terms: dict[Small, Count]
    bases: dict[Small, Count] = field(default_factory=dict)
    nodes: dict[Small, Line] = field(default_factory=dict)


class ReplayUp(Message, frozen=True, tag=True):
    """Replay → run: the terms are in force and agents may connect to ``endpoint``."""

    endpoint: Line


class Nudge(Message, frozen=True, tag=True):
    """Run → replay: rows released, a version published. Executor → agent: rows committed."""


class Finish(Message, frozen=True, tag=True):
    """Executor → agent: ship all committed rows within ``seconds``, then end."""

    seconds: Seconds
