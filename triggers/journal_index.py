"""Where in a journal a time is, so that a part of a long journal is read without the rest."""

from __future__ import annotations

import io
import os
import struct
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol, cast

import lz4.block
import lz4.frame
import msgspec

from artos.specs.unreadable import UNREADABLE
from artos.system.closing import Closing
from artos.system.regular_file import opened
from triggers.journal import LONGEST_LINE, own_and_parts, reading_journal
from triggers.journal_parts import is_packed

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_GAP, _OWN_GAP = 1 << 20, 256 << 10
"""Bytes between two looks at the time, in a part and in the journal's own file."""
_PIECE, _NEAR = 64 << 10, 16 << 10
"""Bytes that are read at once; bytes between two places that are near each other."""
_BACK = 1.0
"""Seconds by which times go back where a run was resumed, at least."""
_BEGAN, _SEARCHED = b'"began":', 4 << 20
"""What a line has where a run goes on; bytes of the journal's own file that are searched for it."""
_HEADER, _STORED = 7, 1 << 31
"""Bytes of a frame before its first block; the bit of a block's size that says: not packed."""
_LATEST = 1e9
"""Seconds up to which a time can be meant; a line with a later one is damaged."""
_MOST_PARTS = 4_096
"""Parts whose times are remembered, as nothing is ever written to a part."""


class Line(NamedTuple):
    """A line of a journal, and how many bytes of the journal come before it.

    ``content`` is None where it cannot be understood.
    """

    address: int
    content: dict[str, Any] | None


class JournalIndex(Closing):
    """An open journal whose lines are found by their time; it is as long as it was when opened.

    Its looks at the time, each so many bytes, also tell where a run was resumed: there the times
    of lines begin again, and those of the index go on. Between two looks that goes unnoticed if
    the run was soon further than before, but for the first megabytes that are in no part.

    Raises:
        JournalDamaged: a file is missing, or cannot be read or unpacked.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with ExitStack() as on_error:
            self._stack = on_error.enter_context(ExitStack())
            with reading_journal(path):
                self._files = self._opened()
                self.size = self._files[-1].end if self._files else 0
                self._looks = self._looked()
            on_error.pop_all()

    @property
    def begin(self) -> float:
        """The time of its first line, in seconds."""
        return self._looks[0].time if self._looks else 0.0

    @property
    def end(self) -> float:
        """The time of its last line."""
        return self._looks[-1].time if self._looks else 0.0

    def before(self, seconds: float) -> int:
        """The address of a line of before this time, and near it; the first one's if none is."""
        found = bisect_right(self._looks, seconds, key=lambda look: look.time)
        return self._narrowed(found, seconds)[0] if found else 0

    def after(self, seconds: float) -> int:
        """The address of a line of after this time, and near it; the journal's end if none is."""
        found = bisect_right(self._looks, seconds, key=lambda look: look.time)
        return self._narrowed(found, seconds)[1] if found else 0

    def search(self, number: Callable[[dict[str, Any]], int | None], wanted: int) -> int:
        """The address of a line near before the first whose number is ``wanted`` or more.

        ``number`` grows from line to line; it is None for lines that have none.
        """
        low, high = 0, self.size
        while high - low > _NEAR:
            middle = (low + high) // 2
            found = next(
                (
                    (address, n)
                    for address, line in self.lines(middle, high)
                    if line is not None and (n := number(line)) is not None
                ),
                None,
            )
            if found is None or found[1] >= wanted:
                high = middle
            else:
                low = found[0]
        return low

    def time_at(self, address: int) -> float:
        """The time of a line before this address, and near it."""
        return self._look(address).time

    def offset_at(self, address: int) -> float:
        """What is to be added to the ``t`` of lines there, as the run was resumed before."""
        return self._look(address).offset

    def lines(self, begin: int = 0, end: int | None = None) -> Iterator[Line]:
        """The whole lines that begin at ``begin`` or later, and before ``end``.

        Raises:
            JournalDamaged: a file cannot be read or unpacked.
        """
        decode = msgspec.json.Decoder(dict[str, Any]).decode
        last = self.size if end is None else end
        for file in self._files:
            if file.end > begin and file.start < last:
                with reading_journal(file.path):
                    for address, text in file.lines(begin, last):
                        yield Line(address, _understood(decode, text))

    def close(self) -> None:
        """Close its files; twice is fine."""
        self._stack.close()

    def _opened(self) -> list[_File]:
        own, found = own_and_parts(self._stack, self.path)
        if own is None and not found:
            self._stack.enter_context(opened(self.path))  # says that there is no such file
        files: list[_File] = []
        for before, part in pairwise([None, *found]):
            assert part is not None
            if part.first != (first := before.end if before else 0):
                raise EOFError(f"its lines from {first:,} to {part.first:,} are missing")
            file = self._stack.enter_context(part.stored())
            about = os.fstat(file.fileno())
            key = (str(part.plain), about.st_ino, about.st_size, about.st_mtime_ns)
            files.append(_File(part.file, _readable(file), files[-1].end if files else 0, key))
        if own:
            files.append(_File(self.path, _Plain(own), files[-1].end if files else 0))
        return files

    def _narrowed(self, found: int, seconds: float) -> tuple[int, int]:
        """Two addresses of lines near each other, of before this time and of after it."""
        low, offset = self._looks[found - 1].address, self._looks[found - 1].offset
        high = self._looks[found].address if found < len(self._looks) else self.size
        while high - low > _NEAR:
            middle = (low + high) // 2
            times = ((a, t) for a, line in self.lines(middle, high) if (t := _time_of(line)))
            address, t = next(times, (high, seconds))
            if offset + t < seconds:
                low = address
            else:
                high = middle
        return low, high

    def _look(self, address: int) -> _Look:
        found = bisect_right(self._looks, address, key=lambda look: look.address)
        return self._looks[max(0, found - 1)] if self._looks else _Look(0, 0.0, 0.0)

    def _looked(self) -> list[_Look]:
        looks: list[_Look] = []
        latest = offset = 0.0
        for address, t in self._times():
            if offset + t < latest - _BACK:  # it was resumed since the last look: where?
                for at, line in self.lines(looks[-1].address, address + 1):
                    if (there := _time_of(line)) is None:
                        continue
                    if offset + there < latest - _BACK:
                        offset = latest
                        looks.append(_Look(at, latest + there, offset))
                    latest = max(latest, offset + there)
            latest = max(latest, offset + t)
            looks.append(_Look(address, latest, offset))
        return looks

    def _times(self) -> Iterator[tuple[int, float]]:
        """Addresses of lines, so many bytes apart, and their ``t``; the last line's is there."""
        for file in self._files:
            for at, t in file.times():
                yield file.start + at, t
        last: list[tuple[int, float]] = []
        for address, line in self.lines(max(0, self.size - _PIECE)):
            if (there := _time_of(line)) is not None:
                last = [(address, there)]
        yield from last

    def __repr__(self) -> str:
        return f"<JournalIndex {self.path} {self.size:,} bytes, {self.end:.1f} s>"


class _Look(NamedTuple):
    """The time at an address, and the part of it from before the run was resumed last."""

    address: int
    time: float
    offset: float


def _understood(decode: Any, text: bytes) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = decode(text)
    except UNREADABLE:
        return None
    return found


def _time_of(line: dict[str, Any] | None) -> float | None:
    t = line.get("t") if line else None
    return float(t) if isinstance(t, int | float) and 0 <= t <= _LATEST else None


class _Bytes(Protocol):
    """What is in a file, any part of which can be read without what comes before it."""

    size: int

    def read(self, offset: int, count: int) -> bytes:
        """So many bytes, fewer at the end, and there maybe none."""
        ...


@dataclass(frozen=True)
class _File:
    """A file of a journal, and how many bytes of the journal come before it.

    ``key`` tells a part from all others; the journal's own file has none, as it grows.
    """

    path: Path
    content: _Bytes
    start: int
    key: tuple[str | int, ...] = ()

    @property
    def end(self) -> int:
        return self.start + self.content.size

    def lines(self, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Its whole lines that begin within these addresses of the journal."""
        at = max(0, begin - self.start - 1)
        with io.BufferedReader(_Raw(self.content, at), _PIECE) as reader:
            if begin > self.start:  # the line that is under way there has begun before
                at += len(reader.readline(LONGEST_LINE))
            while self.start + at < end and (line := reader.readline(LONGEST_LINE)):
                if not line.endswith(b"\n"):
                    if len(line) == LONGEST_LINE:
                        raise EOFError(f"its line at byte {at:,} has no end")
                    return
                if not line.isspace():
                    yield self.start + at, line
                at += len(line)

    def times(self) -> list[tuple[int, float]]:
        """Offsets of lines in it, so many bytes apart, and their ``t``."""
        if (known := _times_of_parts.get(self.key)) is not None:
            return known
        gap, found = _GAP if self.key else _OWN_GAP, list[tuple[int, float]]()
        decode = msgspec.json.Decoder(dict[str, Any]).decode
        # A look needs the byte before it: one byte on, that is in the same block.
        for begin in (0, *range(gap + 1, self.content.size, gap)):
            for address, text in self.lines(self.start + begin, self.start + begin + gap):
                if (t := _time_of(_understood(decode, text))) is not None:
                    found.append((address - self.start, t))
                    break
        if not self.key:
            found = sorted({*found, *self._where_it_goes_on()})
        else:
            _times_of_parts[self.key] = found
            while len(_times_of_parts) > _MOST_PARTS:
                _times_of_parts.popitem(last=False)
        return found

    def _where_it_goes_on(self) -> Iterator[tuple[int, float]]:
        """Offsets and times of lines that say that the run goes on, and of those just before."""
        decode = msgspec.json.Decoder(dict[str, Any]).decode
        data, place = self.content.read(0, _SEARCHED), -1
        while (place := data.find(_BEGAN, place + 1)) >= 0:
            at = self.start + place
            near = ((a, _time_of(_understood(decode, x))) for a, x in self.lines(at - _PIECE, at))
            yield from deque(((a - self.start, t) for a, t in near if t is not None), 2)


_times_of_parts: OrderedDict[tuple[str | int, ...], list[tuple[int, float]]] = OrderedDict()


class _Raw(io.RawIOBase):
    def __init__(self, content: _Bytes, at: int) -> None:
        super().__init__()
        self._content, self._at = content, at

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self._content.read(self._at, len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


def _readable(file: BinaryIO) -> _Bytes:
    """The content of a part, which may be packed."""
    if not is_packed(file):
        return _Plain(file)
    about = lz4.frame.get_frame_info(os.pread(file.fileno(), 32, 0))
    if about["block_linked"] or about["block_checksum"] or about["content_size"]:
        return _Linked(file)
    return _Packed(file, about["block_size"])


class _Plain:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file.fileno()
        self.size = os.fstat(self._file).st_size

    def read(self, offset: int, count: int) -> bytes:
        return os.pread(self._file, max(0, min(count, self.size - offset)), offset)


class _Packed:
    """A frame of LZ4 whose blocks do not need each other; all but the last are equally long."""

    def __init__(self, file: BinaryIO, block: int) -> None:
        self._file, self._block = file.fileno(), block
        self._blocks: list[tuple[int, int]] = []
        self._latest: tuple[int, bytes] = (-1, b"")
        at = _HEADER
        while size := self._size(at):
            self._blocks.append((at + 4, size))
            at += 4 + (size & ~_STORED)
        whole = max(0, len(self._blocks) - 1)
        self.size = whole * block + (len(self._unpacked(whole)) if self._blocks else 0)

    def _size(self, at: int) -> int:
        if len(found := os.pread(self._file, 4, at)) < 4:
            raise EOFError("it is cut off")
        size: int = struct.unpack("<I", found)[0]
        return size

    def _unpacked(self, number: int) -> bytes:
        if self._latest[0] != number:
            at, size = self._blocks[number]
            data = os.pread(self._file, size & ~_STORED, at)
            if not size & _STORED:
                try:
                    data = lz4.block.decompress(data, uncompressed_size=self._block)
                except lz4.block.LZ4BlockError as error:
                    raise EOFError(str(error)) from error
            self._latest = number, data
        return self._latest[1]

    def read(self, offset: int, count: int) -> bytes:
        if offset >= self.size:
            return b""
        number, within = divmod(offset, self._block)
        return self._unpacked(number)[within : within + count]


class _Linked:
    """A frame of LZ4 as earlier versions of ARTOS wrote it: unpacked from its start each time."""

    def __init__(self, file: BinaryIO) -> None:
        self._frame = cast(io.BufferedIOBase, lz4.frame.open(file))
        self.size = self._frame.seek(0, io.SEEK_END)

    def read(self, offset: int, count: int) -> bytes:
        self._frame.seek(offset)
        return self._frame.read(count)
