"""Decodes what a peer sent: MessagePack with limits on lengths and depth, then checked by type.

msgpack's unpacker refuses data nested more than 1,024 deep (fixed in its C code) and lengths beyond
the data or the limits; msgspec's own decoder has no such limits.
"""

from __future__ import annotations

from typing import Any, Generic, NoReturn, TypeVar

import msgpack
import msgspec

from artos.errors import BadMessage

T = TypeVar("T")

LARGEST = 4 << 20
"""Most bytes of a message without bulk content. As empty maps they take 64 times that in memory."""
_MOST_ITEMS = 1 << 17  # of an array or a map: a thousand nodes may have sixteen actors each
_SHOWN = 200  # characters


class Unpacker(Generic[T]):
    """Turns bytes into one of several tagged types."""

    def __init__(self, *types: type[msgspec.Struct]) -> None:
        self._types: dict[Any, Any] = {kind.__struct_config__.tag: kind for kind in types}

    def __call__(self, data: bytes | memoryview, content: memoryview | None = None) -> T:
        """The message in ``data``; ``content``, if any, becomes its field of that name.

        Raises:
            BadMessage: ``data`` is not a valid message; the error names the wrong field.
        """
        if len(data) > LARGEST:
            raise BadMessage(f"a message of {len(data)} bytes, {LARGEST} are allowed")
        try:
            found = msgpack.unpackb(
                data,
                strict_map_key=False,
                ext_hook=_no_ext,
                max_ext_len=0,
                max_array_len=_MOST_ITEMS,
                max_map_len=_MOST_ITEMS,
            )
            tag = found.pop("type", None)
            kind = self._types.get(tag) or self._unknown(tag)
            if content is not None:
                found["content"] = content
            message: T = msgspec.convert(found, kind)
        except Exception as error:  # msgpack documents that it may raise "other exceptions", too
            raise BadMessage(f"{error or type(error).__name__}"[:_SHOWN]) from error
        return message

    def _unknown(self, tag: object) -> NoReturn:
        raise ValueError(f"{tag!r} is none of {', '.join(map(str, self._types))}")


def _no_ext(code: int, data: bytes) -> NoReturn:
    raise ValueError(f"extension type {code}")
