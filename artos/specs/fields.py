"""Types of the fields of messages: ranges of numbers, alphabets of names.

A message is checked when it is received (``artos.protocol.unpacking``), not when it is built.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Meta

MOST = 2**63 - 1
SESSIONS = 2**62
_LARGEST = sys.float_info.max

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""The name of a node or of a run, which becomes the name of a folder."""

Count = Annotated[int, Meta(ge=0, le=MOST)]
"""A count or a row number that fits a word of shared memory."""
Word = Annotated[int, Meta(ge=0)]
"""64 bits, all of them significant; MessagePack has no larger numbers."""
SessionNumber = Annotated[int, Meta(ge=0, lt=SESSIONS)]
"""A session of a channel: nanoseconds since 1970, plus a few steps; enough until 2116."""
Version = Annotated[int, Meta(ge=-1, le=MOST)]
"""A policy version; -1: none yet."""
Small = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""The number of an actor, member or process, or a count of them."""
Few = Annotated[int, Meta(ge=0, le=2**16)]
Some = Annotated[int, Meta(ge=1, le=2**16)]
"""A count of slots or actors for each of which something is done; ``Some`` is at least 1."""
Number = Annotated[int, Meta(ge=-MOST, le=MOST)]
Seconds = Annotated[float, Meta(ge=0, le=_LARGEST)]
Finite = Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST)]
Share = Annotated[float, Meta(ge=0, le=1)]

Name = Annotated[str, Meta(pattern=rf"\A{NAME.pattern}\Z")]
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/=-]{0,127}")
"""What a node is said to have, such as ``avx512`` or ``room=b``."""
Labels = Annotated[
    tuple[Annotated[str, Meta(pattern=rf"\A{LABEL.pattern}\Z")], ...], Meta(max_length=100)
]
Digest = Annotated[str, Meta(pattern=r"\A(?:[0-9a-f]{64})?\Z")]
"""The name of an archive, its SHA-256; "" for none."""
Line = Annotated[str, Meta(pattern=r"\A[^\x00-\x1f\x7f-\x9f]*\Z", max_length=4096)]
"""One line without control characters: paths, endpoints, names that are checked elsewhere."""
PathText = Annotated[str, Meta(pattern=r"\A[^\0]*\Z")]
"""What becomes part of a path."""
Text = Annotated[str, Meta(max_length=1 << 20)]
"""Text for people, of any number of lines; it is escaped where it is shown."""

_DEEPEST = 16


def label_faults(labels: Iterable[str]) -> list[str]:
    """What is wrong with the labels of a node."""
    wrong = ", ".join(repr(label) for label in labels if not LABEL.fullmatch(label))
    return [f"--label {wrong}: write a word, or NAME=WORD"] if wrong else []


def check_plain(value: Any, deepest: int = _DEEPEST) -> None:
    """Check that a value fits JSON, so that it can be stored, sent on and shown.

    Raises:
        ValueError: the value does not fit, or is nested deeper than ``deepest``.
    """
    if fault := _not_plain(value, deepest):
        raise ValueError(f"Expected plain values, found {fault}")


def _not_plain(value: Any, deepest: int) -> str:
    """What keeps a value from being plain, "" if nothing does."""
    if isinstance(value, dict | list | tuple):
        if not deepest:
            return "values nested too deep"
        if isinstance(value, dict):
            for key in value:
                if type(key) is not str:
                    return f"a key `{type(key).__name__}`"
            value = value.values()
        return next(filter(None, (_not_plain(item, deepest - 1) for item in value)), "")
    if value is None or isinstance(value, str):
        return ""
    if isinstance(value, int | float):
        fits = -MOST <= value <= MOST if isinstance(value, int) else math.isfinite(value)
        return "" if fits else f"{value}"
    return f"`{type(value).__name__}`"
