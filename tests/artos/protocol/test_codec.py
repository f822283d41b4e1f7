"""What peers may send: bounded in size, depth and range, or refused; bulk stays as it is."""

from __future__ import annotations

import ast
import math
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artos.errors import BadMessage
from artos.protocol import codec, control, steering
from artos.protocol.data import Finish, Pull, Weights
from artos.protocol.invocations import Claim, Done, Failed, Invoke, Ready
from artos.protocol.message import Message
from artos.protocol.unpacking import LARGEST
from artos.specs.members import ACTORS, Member
from artos.transport.channel import Envelope, framed, opened

DIGEST = "0" * 64


def forged(kind: type[Message], **fields: Any) -> bytes:
    return msgspec.msgpack.encode({"type": kind.__name__, **fields})


def bulk(rest: bytes) -> bytes:
    return b"\xc1" + len(rest).to_bytes(2, "big") + rest


def envelope(session: int = 1, of: int = 2, number: int = 0, took: int = 0) -> bytes:
    return struct.pack(">BxxQQQQ?", 0xC1, session, of, number, took, False)


def submit(settings: Any) -> bytes:
    return forged(control.Submit, request={"ticket": "t", "workload": "ppo", "settings": settings})


NESTED = b"\x91" * 5000 + b"\xc0"
HOSTILE = {
    "a session beyond 64 bits to come": envelope(of=2**64 - 1),
    "a life after which none can come": envelope(session=2**62),
    "a count beyond 63 bits": envelope(number=2**63),
    "a count beyond 63 bits, again": envelope(took=2**64 - 1),
    "an envelope that is cut off": envelope()[:-1],
    "an envelope": framed(Envelope(1, 2)),
    "nested arrays": NESTED,
    "nested maps": b"\x81\xa1a" * 5000 + b"\xc0",
    "nested arrays as a field": b"\x82\xa4type\xacFetchArchive\xa7archive" + NESTED,
    "nested arrays as a setting": submit(0)[:-1] + NESTED,
    "settings that are nested too deep": submit(msgspec.msgpack.decode(b"\x91" * 40 + b"\xc0")),
    "a NUL in a name": forged(control.FetchArchive, archive="a\0b"),
    "a path for a name": forged(control.FetchArchive, archive="../x"),
    "a name and a newline": forged(control.FetchArchive, archive=f"{DIGEST}\n"),
    "a node of control characters": forged(
        control.Hello, node="\x1b[2J", protocol=control.PROTOCOL, version="1", slots=1
    ),
    "a run that leaves its folder": forged(control.Unassign, run=".."),
    "a NUL in the name of an archive": forged(control.Submit, request={}, archive="a\0b"),
    "an extension type as a setting": submit(msgspec.msgpack.Ext(5, b"")),
    "a timestamp as a setting": submit(msgspec.msgpack.Ext(-1, bytes(4))),
    "bytes as a setting": submit(b"x"),
    "a key that is a tuple": submit({(1, 2): 3}),
    "a key that is a number": submit({1: 2}),
    "a number that JSON readers round": submit(2**64 - 1),
    "NaN as a setting": submit(math.nan),
    "a load that is no number": forged(control.Load, cpu=math.nan),
    "a load beyond all": forged(control.Load, memory=math.inf),
    "an endless deadline": forged(Finish, seconds=math.inf),
    "a list that is not there": b"\xdd\xff\xff\xff\xff",
    "a string that is not there": b"\xdb\xff\xff\xff\xff",
    "more than a message may hold": b"\xc4" + bytes(LARGEST),
    "content of what has none": bulk(forged(control.Bye)),
    "no content of what has some": forged(control.Archive, archive=DIGEST),
    "a bulk message that ends early": b"\xc1\xff\xff\x80",
    "nothing at all": b"",
    "a type that is no name": msgspec.msgpack.encode({"type": [1]}),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_no_honest_peer_sends_is_refused(kind: str) -> None:
    with pytest.raises(BadMessage):
        codec.decode(HOSTILE[kind])


HONEST = [
    control.Submit({"settings": {"a": [1, 2.5, None, True, {"b": "ü\n"}]}}, DIGEST),
    control.Archive(DIGEST, b"x" * (LARGEST + 1)),
    control.Placed({actor: f"node{actor}" for actor in range(16_000)}),
    steering.ActorReport(Member(ACTORS), 1, Done(0, -1, {"loss": math.nan}), 2**63 - 1),
    Weights(0, "float32", 2**64 - 1, 0, 4, memoryview(b"abcd")),
    Pull(-1),
]


@pytest.mark.parametrize("message", HONEST, ids=lambda message: type(message).__name__)
def test_what_honest_peers_send_comes_as_it_was_sent(message: Message) -> None:
    again = codec.decode(codec.encode(message))
    assert codec.encode(again) == codec.encode(message)
    assert type(again) is type(message)


def test_the_largest_envelope_comes_as_it_was_sent() -> None:
    envelope = Envelope(2**62 - 1, 2**62 - 1, 2**63 - 1, 0, True, memoryview(b"abc"))
    assert opened(framed(envelope)) == envelope


def test_bulk_is_not_copied() -> None:
    frame = bytearray(codec.encode(Weights(3, "float32", 1, 0, 4, memoryview(b"abcd"))))
    message = codec.decode(memoryview(frame))
    assert isinstance(message, Weights)
    frame[-1] = ord("!")
    assert bytes(message.content) == b"abc!"


def test_no_field_of_a_message_is_without_bounds() -> None:
    """An ``int`` or ``str`` that says no more than that is a hole in what is checked."""
    members = (Claim, Invoke, Ready, Done, Failed)
    found = [
        f"{kind.__name__}.{field.name}"
        for kind in (*codec.TYPES, *members)
        for field in msgspec.inspect.type_info(kind).fields  # type: ignore[attr-defined]
        if _unbounded(field.type, floats=kind not in members)
    ]
    assert found == []


def _unbounded(kind: msgspec.inspect.Type, *, floats: bool) -> bool:
    match kind:
        case msgspec.inspect.IntType():
            return kind.ge is None
        case msgspec.inspect.StrType():
            return kind.pattern is None and kind.max_length is None
        case msgspec.inspect.FloatType():
            return floats and kind.le is None
        case msgspec.inspect.NamedTupleType():
            return any(_unbounded(each.type, floats=floats) for each in kind.fields)
        case msgspec.inspect.VarTupleType():
            return _unbounded(kind.item_type, floats=floats)
        case msgspec.inspect.DictType(value_type=msgspec.inspect.AnyType()):
            return False  # see check_plain
        case msgspec.inspect.DictType():
            both = (kind.key_type, kind.value_type)
            return any(_unbounded(each, floats=floats) for each in both)
        case msgspec.inspect.UnionType():
            return any(_unbounded(each, floats=floats) for each in kind.types)
    return False


def test_a_refusal_says_which_field_is_wrong_and_no_more() -> None:
    with pytest.raises(BadMessage, match=r"\$\.archive") as refused:
        codec.decode(forged(control.FetchArchive, archive="x" * 100_000))
    assert len(str(refused.value)) < 300


def test_every_message_is_sent_under_a_name_of_its_own() -> None:
    """Also one that is new: what stands in a file of the protocol is known to the decoder."""
    folder = Path(codec.__file__).parent
    files = ("message", "control", "steering", "data")
    found = [
        node.name
        for name in files
        for node in ast.parse((folder / f"{name}.py").read_text()).body
        if isinstance(node, ast.ClassDef)
    ]
    roots = {"Message", "Bulk", "UserRequest", "Restarted"}
    assert sorted(kind.__name__ for kind in codec.TYPES) == sorted({*found} - roots)
    assert len({*found}) == len(found)
