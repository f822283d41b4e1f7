"""The journal: one JSON line per firing and per completion; trace, debugger and recovery log."""

from __future__ import annotations

import io
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import msgspec

from artos.errors import Refused
from artos.protocol.invocations import ALL, Claim, Ready
from artos.specs.unreadable import UNREADABLE
from artos.system.append_file import AppendFile, whole_lines
from artos.system.regular_file import opened
from triggers.events import Firing
from triggers.journal_parts import PIECE, Part, packing, parts

MOST_BYTES = 64 << 20
"""As long as a journal gets before it becomes a part."""
_MOST_HELD, _MOST_KEPT = 1_000, 100_000
"""Most lines in memory before a write, and while writing fails."""
LONGEST_LINE = 16 << 20
"""Bytes; a longer one is damaged."""
_NUMBER = "line"
"""Field of the first line after a part: without it, nobody would notice that the part is gone."""


class Journal:
    """Appends to the journal of a run, ``journal.jsonl``, and goes on with what is there.

    A journal of ``most`` bytes becomes a part in one step, a rename, and a new one begins. After a
    crash at most the last line is cut off; the next journal to go on there drops it.

    Raises:
        OSError: the file cannot be read and written.
    """

    def __init__(self, path: Path, began: float = 0.0, most: int = MOST_BYTES) -> None:
        self._path, self._began, self._most = path, began, most
        found = parts(path)
        self._first = found[-1].end if found else 0
        self._file: AppendFile | None = AppendFile(path)
        self._end = self._first + self._file.drop_partial_line()
        self._unpacked = deque(part for part in found if part.plain.exists())
        self._packing = packing(path, self._unpacked)
        self._encode = msgspec.json.Encoder().encode
        self.cause = ""
        """The member whose rows, version or answer the triggers are being checked for."""
        self._lines: list[dict[str, Any]] = []

    def begins(self, now: float, epoch: float) -> None:
        """Record that the run begins, or goes on, ``epoch`` seconds after 1970 began."""
        self.write({"t": round(now - self._began, 6), "began": round(epoch, 3)})

    def fired(self, now: float, firing: Firing) -> None:
        """Record a firing: time in seconds since the run began, id, trigger, rows, version.

        It came ``after`` what its ``cause`` did: that was the last condition that was missing.
        """
        line: dict[str, Any] = {
            "t": round(now - self._began, 6),
            "firing": firing.number,
            "trigger": firing.trigger,
            "version": firing.version,
        }
        if self.cause:
            line["after"] = self.cause
        if firing.claims:
            line["claims"] = _plain(firing.claims)
        if firing.dropped:
            line["dropped"] = _plain(firing.dropped)
        if firing.actors is not None:
            line["actors"] = firing.actors
        self.write(line)

    def take_back(self, firing: int) -> None:
        """Remove the firing recorded last: no member is invoked for it."""
        if self._lines and self._lines[-1].get("firing") == firing:
            self._lines.pop()

    def done(
        self, now: float, firing: int, member: str, *, seconds: float = 0.0,
        times: Mapping[str, float] = MappingProxyType({}), **facts: Any,
    ) -> None:  # fmt: skip
        """Record that a member finished the invocation of a firing.

        ``seconds`` is its duration, ``times`` its parts by kind, if they are known.
        """
        line = {"t": round(now - self._began, 6), "done": firing, "by": member, **facts}
        if seconds:
            line["seconds"] = round(seconds, 6)
        if times:
            line["times"] = {kind: round(value, 6) for kind, value in times.items()}
        self.write(line)

    def ready(self, now: float, member: str, ready: Ready, seconds: float | None) -> None:
        """Record that a member is set up, ``seconds`` after it was asked for.

        None: it was not asked for; it was started from scratch because its image was lost.
        """
        line: dict[str, Any] = {"t": round(now - self._began, 6), "ready": member}
        line["start"] = ready.start
        line |= dict(zip(("from", "to"), ready.moved, strict=False))
        line |= {"device": ready.device} if ready.device else {}
        line |= {"incarnation": ready.incarnation} if ready.incarnation else {}
        self.write(line | ({"anew": True} if seconds is None else {"seconds": round(seconds, 6)}))

    def died(self, now: float, member: str, step: int, why: str, **facts: Any) -> None:
        """Record that a member's process is gone: when that was seen, and how far it was."""
        line = {"t": round(now - self._began, 6), "died": member, "step": step, "why": why}
        self.write(line | facts)

    def blocked(self, now: float, seconds: float) -> None:
        """Record that the run's loop stood still until now, as its records were being written."""
        self.write({"t": round(now - self._began, 6), "blocked": round(seconds, 6)})

    def queued(self, now: float, seconds: float) -> None:
        """Record that the run's loop waited for a CPU since the last such line, as it had none."""
        self.write({"t": round(now - self._began, 6), "queued": round(seconds, 6)})

    def limited(self, now: float, why: str) -> None:
        """Record which quota keeps slots from the run's actors; "": none does any more."""
        self.write({"t": round(now - self._began, 6), "quota": why})

    def scaled(self, now: float, actors: int, before: int, version: int) -> None:
        """Record that so many actors take part from now on, and how many did ``before``."""
        line = {"t": round(now - self._began, 6), "actors": actors, "before": before}
        self.write({**line, "version": version})

    def write(self, line: dict[str, Any]) -> None:
        """Append one line; it is encoded when flushed, so that no firing waits for that."""
        self._lines.append(line)
        if len(self._lines) % _MOST_HELD == 0:
            with suppress(OSError):  # the next flush reports it
                self.flush()
        del self._lines[:-_MOST_KEPT]

    def flush(self) -> None:
        """Hand the lines so far to the kernel.

        Raises:
            OSError: they cannot be written; they are kept for the next time.
        """
        if self._lines and 0 < self._first == self._end:
            self._lines[0] = self._lines[0] | {_NUMBER: self._first}
        written = b"".join(self._encode(line) + b"\n" for line in self._lines)
        if written:
            self._file = self._file or AppendFile(self._path)
            size = self._file.append(written)
            self._end += len(self._lines)
            self._lines.clear()
            if size >= self._most:
                part = Part.of(self._path, self._first, self._end)
                self._path.rename(part.plain)
                self._file.close()
                self._file, self._first = None, self._end
                self._unpacked.append(part)
                self._file = AppendFile(self._path)
        for _ in range(1 + 2 * len(written) // PIECE):  # faster than lines come
            next(self._packing, None)

    def close(self) -> None:
        """Flush and close; twice is fine. A part that is not packed yet stays as it is.

        Raises:
            OSError: the last lines cannot be written.
        """
        try:
            self.flush()
        finally:
            self._lines.clear()
            self._packing.close()
            if self._file:
                self._file.close()


def _plain(claims: Iterable[Claim]) -> list[tuple[int, ...]]:
    """Actor, first and end row of each, and the environment if the rows are of but one."""
    parts = map(msgspec.structs.astuple, claims)
    return [part[:3] if part[3] == ALL else part for part in parts]


class JournalDamaged(Refused):
    """A file of a run's journal is missing, or cannot be read or understood."""

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = path, why
        super().__init__([f"{path}: {why}"])


def read(path: Path, since: int = 0) -> Iterator[dict[str, Any]]:
    """The lines of a journal one by one, those of its parts first, also while it is written.

    ``since`` is the number of the first line wanted, from 0; if negative, it counts from the end.
    Parts that end before it are not opened. Numbers go on when a run is resumed, times (``t``)
    begin again. A last line cut off by a crash is left out.

    Raises:
        JournalDamaged: a file is missing, or cannot be read or understood.
    """
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    with reading_journal(path):
        at, more = since, True
        if since < 0:
            with _holding(path, sys.maxsize) as held:
                at = max(0, held.first + whole_lines(held.file)[0] + since)
        while more:
            with _holding(path, at) as held, reading_journal(held.name):
                for number, line in held.lines():
                    if number >= at and line.strip():
                        yield _checked(decode(line), number)
                    at = max(at, number + 1)
                # The journal's own file may have become a part while it was read.
                more = held.end is not None or any(x.first == held.first for x in parts(path))


@contextmanager
def reading_journal(file: Path) -> Iterator[None]:
    """Turn errors in this block, which reads a journal's ``file``, into ``JournalDamaged``.

    Raises:
        JournalDamaged: it is missing, or cannot be read or understood.
    """
    try:
        yield
    except OSError as error:
        why = f"it cannot be read: {error.strerror or error}"
        raise JournalDamaged(error.filename or str(file), why) from error
    except (EOFError, RuntimeError, *UNREADABLE) as error:
        why = f"it is damaged ({error}): restore it from a copy"
        raise JournalDamaged(str(file), why) from error


@dataclass(frozen=True)
class _Held:
    """An open file of a journal, and the numbers of its first line and of its end, if it ends."""

    name: Path
    file: BinaryIO
    first: int
    end: int | None = None

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Its whole lines by number; EOFError where these are not as many as it must have."""
        number = self.first
        while (line := self.file.readline(LONGEST_LINE)).endswith(b"\n"):
            yield number, line
            number += 1
        if len(line) == LONGEST_LINE or self.end not in {None, number}:
            raise EOFError(f"it has {number - self.first:,} whole lines")


def _checked(line: dict[str, Any], number: int) -> dict[str, Any]:
    if (found := line.pop(_NUMBER, number)) != number:
        raise EOFError(f"it has line {found} where line {number} should be: a part is missing")
    return line


@contextmanager
def _holding(path: Path, at: int) -> Iterator[_Held]:
    """The file that has line ``at``, or will have it."""
    with ExitStack() as stack:
        own, found = own_and_parts(stack, path)
        if found and at < found[-1].end:
            before, part = next((b, p) for b, p in pairwise([None, *found]) if p and at < p.end)
            if part.first > at:  # the part with this line is missing: opening it says so
                part = Part.of(path, before.end if before else 0, part.first)
            yield _Held(part.file, stack.enter_context(part.opened()), part.first, part.end)
        elif own or not found:
            file = own or stack.enter_context(opened(path))
            yield _Held(path, file, found[-1].end if found else 0)
        else:  # the run was killed, or looked at, between the end of a part and the next line
            yield _Held(path, io.BytesIO(), found[-1].end)


def own_and_parts(stack: ExitStack, path: Path) -> tuple[BinaryIO | None, list[Part]]:
    """A journal's own file, opened, if there is one, and the parts that come before it.

    Raises:
        OSError: the file cannot be read, or its folder cannot.
    """
    own, found = _own(stack, path), parts(path)
    while own and not _is_still(path, own):  # it became a part between these two looks
        own, found = _own(stack, path), parts(path)
    return own, found


def _own(stack: ExitStack, path: Path) -> BinaryIO | None:
    with suppress(FileNotFoundError):
        return stack.enter_context(opened(path))
    return None


def _is_still(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
