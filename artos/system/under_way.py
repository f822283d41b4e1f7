"""What this process does that may never end, for whoever waits for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import msgspec

from artos.errors import DeadlineExceeded

_told: list[IO[bytes]] = []


class NoAnswer(DeadlineExceeded):
    """Code of the user's, ``who``, did not return from ``call`` within ``seconds``."""

    def __init__(self, who: str, call: str, seconds: float) -> None:
        super().__init__(f"{who} to answer to {call}", seconds)
        self.who, self.call = who, call
        self.args = (f"{who}: no answer to {call} within {seconds:g} s",)


class UnderWay(msgspec.Struct, frozen=True):
    """What ``who`` was asked to do, since when on the machine's clock; nothing once it is done."""

    who: str = ""
    call: str = ""
    since: float = 0.0


def tell(file: IO[bytes]) -> None:
    """From now on, write a line to ``file`` whenever something begins or ends."""
    _told.append(file)


@contextmanager
def under_way(who: str, call: str) -> Iterator[None]:
    """Call code of the user's, which may never return."""
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
    """The newest whole line of what was written."""
    lines = written.rpartition(b"\n")[0].splitlines()
    return msgspec.json.decode(lines[-1], type=UnderWay) if lines else UnderWay()
