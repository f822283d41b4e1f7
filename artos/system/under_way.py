"""What this process does that may never end, reported to the process that waits for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import msgspec

from artos.errors import DeadlineExceeded

_told: list[IO[bytes]] = []


class NoAnswer(DeadlineExceeded):
    """The user's code, ``who``, did not return from ``call`` within ``seconds``."""

    def __init__(self, who: str, call: str, seconds: float) -> None:
        super().__init__(f"{who} to answer to {call}", seconds)
        self.who, self.call = who, call
        self.args = (f"{who}: no answer to {call} within {seconds:g} s",)


class UnderWay(msgspec.Struct, frozen=True):
    """A call of the user's code that has begun; empty once it is over."""

    who: str = ""
    call: str = ""
    since: float = 0.0
    """When it began, in seconds of the machine's monotonic clock."""


def tell(file: IO[bytes]) -> None:
    """From now on, write a line to ``file`` whenever a call begins or ends."""
    _told.append(file)


@contextmanager
def under_way(who: str, call: str) -> Iterator[None]:
    """Report that the block calls the user's code, which may never return."""
    _write(UnderWay(who, call, time.monotonic()))
    try:
        yield
    finally:
        _write(UnderWay())


def _write(line: UnderWay) -> None:
    for file in _told:
        file.write(msgspec.json.encode(line) + b"\n")
        file.flush()


def last(written: bytes) -> UnderWay:
    """The newest report among what was written; a line that is not whole does not count."""
    lines = written.rpartition(b"\n")[0].splitlines()
    return msgspec.json.decode(lines[-1], type=UnderWay) if lines else UnderWay()
