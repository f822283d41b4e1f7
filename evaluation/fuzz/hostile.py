"""Hostile input: messages of every type with extreme values, mutated bytes, strange archives."""

from __future__ import annotations

import io
import math
import re
import struct
import tarfile
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

import msgpack
from msgspec import inspect

from artos.protocol import codec
from artos.protocol.message import Bulk, Message
from artos.transport.channel import Envelope, framed

NUMBERS = (
    0, 1, 2, 7, 255, 2**16, 2**31 - 1, 2**31, 2**32, 2**53, 2**62 - 1, 2**62, 2**63 - 1, 2**63,
    2**64 - 1, -1, -2, -(2**31), -(2**63),
)  # fmt: skip
FLOATS = (0.0, 0.5, 1.0, -1.0, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf)
WORDS = (
    "", "a", "w1", "run-1", "0" * 64, "..", "../x", "/etc/passwd", "a\0b", "a\nb", "\x1b[2J",
    "\u202e", "\x9b31m", "{}", "[/x]", "tcp://127.0.0.1:1", "ipc:///nowhere",
    "observations", "float32", "running", "done", "learner", "actors", "actor-0", "w1/actor-0",
    "2-3", "actors.wait/0.5",
    "n" * 127, "n" * 5000, "é" * 300,
)  # fmt: skip
_STRANGE: tuple[Any, ...] = (
    None, True, 3.5, b"\0", [], {}, "x", -1, msgpack.ExtType(5, b""), [[]], {1: 2}, {"a": {}},
)  # fmt: skip
_BYTES = (b"\xdf", b"\xdd", b"\xdb", b"\xc1", b"\x91")
_KINDS = (
    tarfile.REGTYPE,
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.FIFOTYPE,
    tarfile.DIRTYPE,
    tarfile.GNUTYPE_SPARSE,
    tarfile.CHRTYPE,
)
_COUNTS = (0, 1, 1, 2, 2, 3, 3, 40)
_HONEST = 0.9
"""Share of values that are in range: else the decoder would refuse almost every message."""


class Hostile:
    """Generates cases from a seed; ``avoided`` parts of messages would have a legitimate effect."""

    def __init__(self, seed: int, avoided: tuple[type, ...] = ()) -> None:
        self.random, self._avoided = Random(seed), avoided

    def body(self, kinds: Sequence[type[Message]]) -> bytes:
        """A message of one of these kinds, or nearly; never empty, as channels refuse that."""
        random = self.random
        way = random.random()
        if way < 0.04:
            return random.randbytes(random.randrange(1, 80))
        if way < 0.08:
            depth = random.choice((10, 100, 1000, 5000))
            opening = random.choice((b"\x91", b"\x81\xa1a", b"\x82\xa4type\xa4Load\xa1a"))
            return opening * depth + b"\xc0"
        whole = self._packed(random.choice(kinds))
        return self._mutated(whole) if way < 0.35 else whole

    def frame(self) -> bytes:
        """Nearly a frame as a messenger sends it, but never one that a messenger would accept."""
        way = self.random.random()
        if way < 0.3:
            whole = self._envelope()
            return self._mutated(whole) if way < 0.1 else whole
        if way < 0.6:
            return self._mutated(framed(Envelope(7, 0, 1, content=memoryview(b"abc"))))
        return self.body(codec.TYPES)

    def archive(self) -> bytes:
        """A code archive as `artos submit` would never pack it."""
        buffer, random = io.BytesIO(), self.random
        kind = random.choice((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))
        with tarfile.open(fileobj=buffer, mode="w", format=kind) as archive:
            for _ in range(random.randrange(1, 5)):
                names = (
                    "a", "a/b", "./a", "../x", "/x", "d" * 300, "d/" * 90 + "x", "l", "l/x", "ü",
                )  # fmt: skip
                entry = tarfile.TarInfo(random.choice(names))
                entry.type = random.choice((tarfile.REGTYPE, random.choice(_KINDS)))
                entry.linkname = random.choice(("", "a", "l", "..", "../..", "/etc", "a/../../x"))
                if random.random() < 0.2:
                    entry.pax_headers = {
                        "GNU.sparse.realsize": str(2**42),
                        "path": random.choice(names),
                    }
                content = random.randbytes(random.randrange(600)) if entry.isreg() else b""
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        return self._mutated(buffer.getvalue()) if random.random() < 0.5 else buffer.getvalue()

    # -- bytes ---------------------------------------------------------------------------------

    def _mutated(self, whole: bytes) -> bytes:
        found, random = bytearray(whole), self.random
        for _ in range(random.randrange(1, 4)):
            at = random.randrange(len(found) + 1)
            match random.randrange(4):
                case 0:
                    found[at : at + 1] = random.randbytes(1)
                case 1:
                    del found[at : at + random.randrange(1, 9)]
                case 2:
                    found[at:at] = random.randbytes(random.randrange(1, 9))
                case 3:
                    found[at : at + 1] = random.choice(_BYTES)
        return bytes(found) or b"\0"

    # -- values --------------------------------------------------------------------------------

    def _envelope(self) -> bytes:
        random = self.random
        numbers = [random.choice(NUMBERS[:15]) for _ in range(4)]
        more, content = random.random() < 0.2, random.randbytes(random.randrange(20))
        return struct.pack(">BxxQQQQ?", 0xC1, *numbers, more) + content

    def _packed(self, kind: type[Message]) -> bytes:
        said = self._struct(_info(kind))
        content = said.pop("content", b"") if issubclass(kind, Bulk) else None
        packed: bytes = msgpack.packb(said, unicode_errors="surrogatepass")
        if content is None or self.random.random() < 0.1:
            return packed
        content = content if isinstance(content, bytes) else b""
        return b"\xc1" + (len(packed) & 0xFFFF).to_bytes(2, "big") + packed + content

    def _struct(self, info: inspect.Type) -> Any:
        assert isinstance(info, inspect.StructType | inspect.NamedTupleType)
        values = {each.name: self._value(each.type) for each in info.fields}
        if isinstance(info, inspect.NamedTupleType) or info.array_like:
            return [*values.values()]
        if self.random.random() < 0.03:
            values.pop(self.random.choice([*values, "type"]), None)
        return {"type": info.tag} | values

    def _value(self, kind: inspect.Type) -> Any:
        random = self.random
        if random.random() < 0.06:
            return random.choice(_STRANGE)
        simple: dict[type[inspect.Type], Callable[[], Any]] = {
            inspect.BoolType: lambda: random.random() < 0.5,
            inspect.BytesType: lambda: random.randbytes(random.randrange(40)),
            inspect.MemoryViewType: lambda: random.randbytes(random.randrange(40)),
            inspect.AnyType: lambda: random.choice((*_STRANGE, *NUMBERS, *FLOATS, *WORDS)),
            inspect.NoneType: lambda: None,
        }
        if isinstance(kind, inspect.IntType | inspect.FloatType | inspect.StrType):
            return random.choice(_fitting(kind) if random.random() < _HONEST else _any(kind))
        if type(kind) in simple:
            return simple[type(kind)]()
        return self._composed(kind)

    def _may(self, kind: inspect.Type) -> bool:
        return not (isinstance(kind, inspect.StructType) and kind.cls in self._avoided)

    def _composed(self, kind: inspect.Type) -> Any:
        random = self.random
        match kind:
            case inspect.VarTupleType() | inspect.ListType():
                count = random.choice(_COUNTS)
                return [self._value(kind.item_type) for _ in range(count)]
            case inspect.TupleType():
                return [self._value(each) for each in kind.item_types]
            case inspect.DictType():
                count = random.choice(_COUNTS)
                keys = (self._value(kind.key_type) for _ in range(count))
                return {k: self._value(kind.value_type) for k in keys if _hashable(k)}
            case inspect.UnionType():
                return self._value(random.choice([each for each in kind.types if self._may(each)]))
            case inspect.LiteralType():
                return random.choice((*kind.values, "x"))
        return self._struct(kind)


@cache
def _info(kind: type[Message]) -> inspect.Type:
    return inspect.type_info(kind)


def _any(kind: inspect.Type) -> tuple[Any, ...]:
    match kind:
        case inspect.IntType():
            return NUMBERS
        case inspect.FloatType():
            return FLOATS
    return WORDS


_FITTING: dict[int, tuple[Any, ...]] = {}  # by the id of a type, which ``_info`` keeps alive


def _fitting(kind: inspect.Type) -> tuple[Any, ...]:
    """Values, however strange, that are within the range of a field."""
    if id(kind) not in _FITTING:
        _FITTING[id(kind)] = _found(kind)
    return _FITTING[id(kind)]


def _found(kind: inspect.Type) -> tuple[Any, ...]:
    if isinstance(kind, inspect.StrType):
        pattern = re.compile(kind.pattern or "")
        return tuple(word for word in WORDS if pattern.search(word))
    assert isinstance(kind, inspect.IntType | inspect.FloatType)
    least = -math.inf if kind.ge is None else kind.ge
    most = math.inf if kind.le is None else kind.le
    return tuple(number for number in _any(kind) if least <= number <= most)


def _hashable(value: Any) -> bool:
    return not isinstance(value, list | dict)
