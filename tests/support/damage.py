"""What may have happened to a file of records: to all of it, or to one field of JSON in it."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Damage = Callable[[Path, random.Random], None]


def empty(file: Path, rnd: random.Random) -> None:
    file.write_bytes(b"")


def missing(file: Path, rnd: random.Random) -> None:
    file.unlink()


def cut(file: Path, rnd: random.Random) -> None:
    text = file.read_bytes()
    file.write_bytes(text[: rnd.randrange(len(text) + 1)])


def garbage(file: Path, rnd: random.Random) -> None:
    """No UTF-8."""
    file.write_bytes(rnd.randbytes(200) + b"\n")


def flipped(file: Path, rnd: random.Random) -> None:
    text = bytearray(file.read_bytes())
    for _ in range(3):
        text[rnd.randrange(len(text))] = rnd.choice(b'{}[]",:0-\xff\n\0')
    file.write_bytes(text)


def other_types(file: Path, rnd: random.Random) -> None:
    """Another kind of value where a number, a text or a list was."""
    text = file.read_text("latin-1")
    for before, after in rnd.sample(
        [("1", "null"), ("0", '"x"'), ("[", "{"), ("true", "[]"), ("2", "1e400"), ("3", "-9" * 30)],
        2,
    ):
        text = text.replace(before, after)
    file.write_text(text, "latin-1")


def no_object(file: Path, rnd: random.Random) -> None:
    file.write_bytes(rnd.choice([b"[]", b"null", b"7", b'"text"', b"[" * 5000, b"{}"]))


def folder(file: Path, rnd: random.Random) -> None:
    file.unlink()
    file.mkdir()


def fifo(file: Path, rnd: random.Random) -> None:
    file.unlink()
    os.mkfifo(file)


def dangling(file: Path, rnd: random.Random) -> None:
    file.unlink()
    file.symlink_to("/nowhere/at/all")


def to_itself(file: Path, rnd: random.Random) -> None:
    file.unlink()
    file.symlink_to(file.name)


DAMAGES = (
    empty, missing, cut, garbage, flipped, other_types, no_object, folder, fifo, dangling,
    to_itself,
)  # fmt: skip

GONE = object()
"""In place of a field: it is not there."""
_DEEP = "@deep"
_RAW = {f'"{_DEEP}"': "[" * 3000 + "]" * 3000, '"@huge"': "1e999"}
VALUES: tuple[Any, ...] = (
    GONE, None, "x", "a\0b", 10**30, -(10**30), 2**63, -1, 0, 1.5, True, [], {}, ["x"], [None],
    [-1], [10**30], {"a": None}, _DEEP, "@huge",
)  # fmt: skip


def places(value: Any, deepest: int = 5, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the fields of JSON are; of a list, its first two entries."""
    yield at
    if len(at) < deepest:
        inside = value.items() if isinstance(value, dict) else ()
        inside = [*enumerate(value)][:2] if isinstance(value, list) else inside
        for name, each in inside:
            yield from places(each, deepest, (*at, name))


def with_field(text: str, at: tuple[Any, ...], new: Any) -> str:
    """JSON with another value in that place."""
    found = whole = {"": json.loads(text)}
    names = ("", *at)
    for name in names[:-1]:
        found = found[name]
    found[names[-1]] = new
    if new is GONE:
        del found[names[-1]]
    damaged = json.dumps(whole.get("", {}))
    for name, raw in _RAW.items():
        damaged = damaged.replace(name, raw)
    return damaged


@contextmanager
def within(seconds: float, what: str) -> Iterator[None]:
    """Fail if the block takes longer, even where it waits for a file."""

    def late(*_: object) -> None:
        raise AssertionError(f"{what} took more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
