"""Every message between the node and its members, in one place: tagged, typed, no pickle."""

from __future__ import annotations

from typing import Literal

import msgspec

from artos.lag import ActorLag
from artos.protocol.fields import Count, Line, Name, Seconds, Text, Version
from artos.protocol.unpacking import Unpacker

StartKind = Literal["cold", "fork", "clone", "moved"]
"""How a member's process came to be: from scratch, as a fork or a clone of a template, or as what
it was on another node."""


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """Rows ``start`` to ``stop`` of one actor's block."""

    actor: Count
    start: Count
    stop: Count


class Invoke(msgspec.Struct, frozen=True, tag=True):
    """Node → member: a trigger fired; run ``method``. Answered by ``Done`` or ``Failed``.

    ``steps`` is set for sampling: the round ends when the block holds ``stop`` rows.
    ``progress`` is the share of the step budget already sampled (for annealing).
    """

    firing: Count
    trigger: Line
    method: Line
    claims: tuple[Claim, ...] = ()
    stop: Count = 0
    bind: bool = True
    progress: float = 0.0


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Node → member: finish what you are doing and end."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Member → node: set up and waiting. ``seconds`` is how long that took.

    ``moved`` are the nodes from and to which it went, if it goes on as what it was elsewhere.
    """

    seconds: Seconds
    incarnation: Count = 0
    start: StartKind = "cold"
    moved: tuple[Name, ...] = ()


class Done(msgspec.Struct, frozen=True, tag=True):
    """Member → node: the invocation is finished.

    ``version`` is the policy version used (actor) or published (learner); ``returns`` and
    ``lengths`` describe the episodes that ended; ``times`` says where the seconds went.
    ``seconds`` is how long it sampled (actor), or updated and published (learner): a duration by
    the member's own clock, which stands still while the member is an image. ``drawn`` are lags of
    rows that the learner drew with samplers, actor by actor; with ``unread`` it learned from these
    alone, and not from the rows it was handed.
    """

    firing: Count
    version: Version
    metrics: dict[Line, float] = {}
    times: dict[Line, float] = {}
    returns: tuple[float, ...] = ()
    lengths: tuple[Count, ...] = ()
    seconds: Seconds = 0.0
    drawn: tuple[ActorLag, ...] = ()
    unread: bool = False


class Failed(msgspec.Struct, frozen=True, tag=True):
    """Member → node: user code raised; the member ends after this."""

    firing: Count
    step: Version
    trace: Text
    fatal: bool = False


ToMember = Invoke | Stop
FromMember = Ready | Done | Failed

encode = msgspec.msgpack.Encoder().encode
_to_member = Unpacker[ToMember](Invoke, Stop)
_from_member = Unpacker[FromMember](Ready, Done, Failed)


def decode_to_member(data: bytes) -> ToMember:
    """Decode what the node sent.

    Raises:
        BadMessage: the bytes are no valid message; says which field is wrong.
    """
    return _to_member(data)


def decode_from_member(data: bytes) -> FromMember:
    """Decode what a member sent.

    Raises:
        BadMessage: the bytes are no valid message; says which field is wrong.
    """
    return _from_member(data)
