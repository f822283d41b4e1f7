"""What a field of a message may hold, in one place: ranges of numbers, alphabets of names.

A message that is built here is not checked; one that comes in is (``artos.protocol.unpacking``).
"""

from __future__ import annotations

import math
import re
import sys
from typing import Annotated, Any

from msgspec import Meta

MOST = 2**63 - 1
LIVES = 2**62
_LARGEST = sys.float_info.max

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""What a node or a run may be called: its name becomes that of a folder."""

Count = Annotated[int, Meta(ge=0, le=MOST)]
"""A number of things, of a row, of bytes: what fits a word of shared memory."""
Word = Annotated[int, Meta(ge=0)]
"""64 bits, all of which mean something; at most once more than that, whatever comes in."""
Life = Annotated[int, Meta(ge=0, lt=LIVES)]
"""A session of a channel: nanoseconds since 1970 and now and then one more, till 2116."""
Version = Annotated[int, Meta(ge=-1, le=MOST)]
"""A policy version; -1: none yet."""
Small = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""A number of what there are few of: actors, members, slots, processes."""
Few = Annotated[int, Meta(ge=0, le=2**16)]
Some = Annotated[int, Meta(ge=1, le=2**16)]
"""Slots of a node, actors of a run: something is done for each of them."""
Number = Annotated[int, Meta(ge=-MOST, le=MOST)]
Seconds = Annotated[float, Meta(ge=0, le=_LARGEST)]
Share = Annotated[float, Meta(ge=0, le=1)]

Name = Annotated[str, Meta(pattern=rf"\A{NAME.pattern}\Z")]
Digest = Annotated[str, Meta(pattern=r"\A(?:[0-9a-f]{64})?\Z")]
"""The name of an archive, its SHA-256; "" for none."""
Line = Annotated[str, Meta(pattern=r"\A[^\x00-\x1f\x7f-\x9f]*\Z", max_length=4096)]
"""One line without control characters: paths, endpoints, names that only somebody else knows."""
Text = Annotated[str, Meta(max_length=1 << 20)]
"""Words for people, of any number of lines; they are escaped where they are shown."""

_DEEPEST = 16


def check_plain(value: Any, deepest: int = _DEEPEST) -> None:
    """See that a value is what JSON can say, so that it can be kept, sent on and shown.

    Raises:
        ValueError: it is not, or is nested deeper than ``deepest``.
    """
    if fault := _not_plain(value, deepest):
        raise ValueError(f"Expected plain values, found {fault}")


def _not_plain(value: Any, deepest: int) -> str:
    """What keeps a value from being plain, "" if nothing does."""
    if isinstance(value, dict | list | tuple):
        return _not_plain_within(value, deepest) if deepest else "ones that are nested too deep"
    if value is None or isinstance(value, str):
        return ""
    if isinstance(value, int | float):
        fits = -MOST <= value <= MOST if isinstance(value, int) else math.isfinite(value)
        return "" if fits else f"{value}"
    return f"`{type(value).__name__}`"


def _not_plain_within(values: Any, deepest: int) -> str:
    if isinstance(values, dict):
        for key in values:
            if type(key) is not str:
                return f"a key `{type(key).__name__}`"
        values = values.values()
    return next(filter(None, (_not_plain(item, deepest - 1) for item in values)), "")
