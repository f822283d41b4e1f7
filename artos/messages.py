"""Every message between the node and its members, in one place: tagged, typed, no pickle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

import msgspec

from artos.errors import BadMessage
from artos.unreadable import UNREADABLE

StartKind = Literal["cold", "fork", "clone", "moved"]
"""How a member's process came to be: from scratch, as a fork or a clone of a template, or as what
it was on another node."""


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """Rows ``start`` to ``stop`` of one actor's block."""

    actor: int
    start: int
    stop: int


class Invoke(msgspec.Struct, frozen=True, tag=True):
    """Node → member: a trigger fired; run ``method``. Answered by ``Done`` or ``Failed``.

    ``steps`` is set for sampling: the round ends when the block holds ``stop`` rows.
    ``progress`` is the share of the step budget already sampled (for annealing).
    """

    firing: int
    trigger: str
    method: str
    claims: tuple[Claim, ...] = ()
    stop: int = 0
    bind: bool = True
    progress: float = 0.0


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Node → member: finish what you are doing and end."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Member → node: set up and waiting. ``seconds`` is how long that took.

    ``moved`` are the nodes from and to which it went, if it goes on as what it was elsewhere.
    """

    seconds: float
    incarnation: int = 0
    start: StartKind = "cold"
    moved: tuple[str, ...] = ()


class Done(msgspec.Struct, frozen=True, tag=True):
    """Member → node: the invocation is finished.

    ``version`` is the policy version used (actor) or published (learner); ``returns`` and
    ``lengths`` describe the episodes that ended; ``times`` says where the seconds went.
    ``seconds`` is how long it sampled (actor), or updated and published (learner): a duration by
    the member's own clock, which stands still while the member is an image.
    """

    firing: int
    version: int
    metrics: dict[str, float] = {}
    times: dict[str, float] = {}
    returns: tuple[float, ...] = ()
    lengths: tuple[int, ...] = ()
    seconds: float = 0.0


class Failed(msgspec.Struct, frozen=True, tag=True):
    """Member → node: user code raised; the member ends after this."""

    firing: int
    step: int
    trace: str
    fatal: bool = False


class Scale(msgspec.Struct, frozen=True, tag=True):
    """Control → node: from the next version on let ``actors`` actors take part."""

    actors: int


class Scaled(msgspec.Struct, frozen=True, tag=True):
    """Node → control: done, or why not. ``actors`` take part now, ``most`` are registered."""

    actors: int
    most: int
    fault: str = ""


T = TypeVar("T")

ToMember = Invoke | Stop
FromMember = Ready | Done | Failed

encode = msgspec.msgpack.Encoder().encode
_to_member: Callable[[bytes], ToMember] = msgspec.msgpack.Decoder(ToMember).decode
_from_member: Callable[[bytes], FromMember] = msgspec.msgpack.Decoder(FromMember).decode
_scale: Callable[[bytes], Scale] = msgspec.msgpack.Decoder(Scale).decode
_scaled: Callable[[bytes], Scaled] = msgspec.msgpack.Decoder(Scaled).decode


def decode_to_member(data: bytes) -> ToMember:
    """Decode what the node sent.

    Raises:
        BadMessage: the bytes are no valid message; says which field is wrong.
    """
    return _decode(_to_member, data)


def decode_from_member(data: bytes) -> FromMember:
    """Decode what a member sent.

    Raises:
        BadMessage: the bytes are no valid message; says which field is wrong.
    """
    return _decode(_from_member, data)


def decode_scale(data: bytes) -> Scale:
    """Decode what a control asks for.

    Raises:
        BadMessage: the bytes are no valid message; says which field is wrong.
    """
    return _decode(_scale, data)


def decode_scaled(data: bytes) -> Scaled:
    """Decode what the node answered to a control.

    Raises:
        BadMessage: the bytes are no valid message; says which field is wrong.
    """
    return _decode(_scaled, data)


def _decode(decode: Callable[[bytes], T], data: bytes) -> T:
    try:
        return decode(data)
    except UNREADABLE as error:
        raise BadMessage(str(error)) from error
