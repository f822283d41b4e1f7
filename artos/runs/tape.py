"""What a learner's process did, in the file that it records: a tape, for an exact replay.

Each process has one, ``replay/ROLE-N.tape`` in the run's folder. It begins with a line of JSON, the
``Header``. Then come frames, each a length and so many bytes of records, and zeros if the process
was killed. A frame is in the file before the version that it leads to can be seen: whoever is
killed leaves a tape from which that version can be made. Numbers are LEB128, most of them
differences from the last one.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, BinaryIO, NamedTuple

import msgspec

from artos.buffer.samplers.looks import RESERVED_OF_KEY
from artos.errors import ArtosError
from artos.specs.fields import Count
from artos.system.regular_file import opened

FOLDER = "replay"
_BEGUN, _CALLED, _UNCHANGED, _THREADS, _PUBLISHED, _LOOKED = range(6)
_PEER = _LOOKED + RESERVED_OF_KEY + 1
_DOUBLE = struct.Struct("<d")
_SUM = struct.Struct("<I")
_MOST_HEADER, _MOST_FRAME = 1 << 20, 1 << 24
_MOST_DIGITS = 10


class Header(msgspec.Struct, frozen=True):
    """What the process was: a replay has to be the same."""

    tape: Annotated[int, msgspec.Meta(ge=2, le=2)] = 2
    plan: dict[str, str] = {}
    """Checksums of parts of the plan."""
    threads: Count = 1
    device: str = "cpu"
    resumes: Count = 0
    code: dict[str, str] = {}
    """Checksums of the user's files that were imported, by name."""


class Begun(msgspec.Struct, frozen=True):
    """The process found this version (-1: none), of weights with this checksum."""

    version: int
    checksum: int


class Called(msgspec.Struct, frozen=True):
    """It began an invocation: that of a firing, when so many environment steps were made.

    ``progress`` is None if it is just the share of these in the ``total_steps`` of the plan.
    """

    firing: int
    steps: int
    configuration: int
    progress: float | None


class Looked(msgspec.Struct, frozen=True):
    """It looked at ``what`` of blocks (``artos.buffer.samplers.looks``), and saw this of each."""

    what: int
    counts: tuple[int, ...]


class Threads(msgspec.Struct, frozen=True):
    """It computes with so many threads from its ``turn``-th look at what others use on."""

    turn: int
    threads: int


class Published(msgspec.Struct, frozen=True):
    """It published the next version, of weights with this checksum."""

    checksum: int


class Peer(msgspec.Struct, frozen=True):
    """It asked for the state of another learner, and was given this version (-1: none)."""

    learner: str
    version: int


Record = Begun | Called | Looked | Threads | Published | Peer


class Recorded(NamedTuple):
    """A tape that was read."""

    header: Header
    records: Sequence[Record]
    path: Path
    ends: bool = False
    """Its file ends there: it was closed, or cut off. That of one who was killed has zeros yet."""


class TapeDamaged(ArtosError):
    """A file is no tape, or not any more."""

    def __init__(self, path: Path, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"{path}: {why}")


def tapes(run: Path, role: str) -> list[Path]:
    """The tapes of a role's processes, first the oldest."""
    name = re.compile(rf"{re.escape(role)}-(\d{{1,9}})\.tape")
    folder = run / FOLDER
    files = folder.iterdir() if folder.is_dir() else ()
    found = [(int(match[1]), file) for file in files if (match := name.fullmatch(file.name))]
    return [file for _, file in sorted(found)]


def found_beside(tape: Path, name: str) -> Path:
    """The copy of a file of priorities that a tape's process found."""
    return tape.with_suffix(f".{name}")


def all_beside(tape: Path, name: str) -> Iterator[tuple[str, Path]]:
    """The copies of files whose names begin so, each with its name and where it is."""
    for copy in tape.parent.glob(f"{tape.stem}.{name}*"):
        yield copy.name.removeprefix(f"{tape.stem}."), copy


class _Last:
    """What differences are counted from."""

    def __init__(self) -> None:
        self.firing = self.steps = self.turn = 0
        self.seen: dict[tuple[int, int], list[int]] = {}

    def of(self, what: int, blocks: int) -> list[int]:
        """What was seen last; at first nothing was there."""
        return self.seen.get((what, blocks)) or [0] * blocks


class Writer:
    """Makes records into frames: ``take`` returns the next one."""

    def __init__(self) -> None:
        self._last, self._out, self._unchanged = _Last(), bytearray(), 0

    def begun(self, version: int, checksum: int) -> None:
        """See ``Begun``."""
        self._number(self._tag(_BEGUN), version + 1)
        self._out += _SUM.pack(checksum)

    def called(self, firing: int, steps: int, configuration: int, progress: float | None) -> None:
        """See ``Called``."""
        out, last = self._tag(_CALLED), self._last
        self._number(out, _folded(firing - last.firing))
        self._number(out, _folded(steps - last.steps))
        self._number(out, configuration << 1 | (progress is not None))
        if progress is not None:
            out += _DOUBLE.pack(progress)
        last.firing, last.steps = firing, steps

    def looked(self, what: int, counts: list[int]) -> None:
        """See ``Looked``."""
        last = self._last.of(what, len(counts))
        if counts == last:
            self._unchanged += 1
            return
        out = self._tag(_LOOKED + what)
        moved = [at for at, count in enumerate(counts) if count != last[at]]
        self._number(out, len(counts))
        self._number(out, len(moved))
        before = 0
        for at in moved:
            self._number(out, at - before)
            self._number(out, _folded(counts[at] - last[at]))
            before = at
        self._last.seen[what, len(counts)] = counts

    def threads(self, turn: int, threads: int) -> None:
        """See ``Threads``."""
        out = self._tag(_THREADS)
        self._number(out, turn - self._last.turn)
        self._number(out, threads)
        self._last.turn = turn

    def peer(self, learner: str, version: int) -> None:
        """See ``Peer``."""
        out, name = self._tag(_PEER), learner.encode()
        self._number(out, len(name))
        out += name
        self._number(out, version + 1)

    def published(self, checksum: int) -> None:
        """See ``Published``."""
        self._tag(_PUBLISHED)
        self._out += _SUM.pack(checksum)

    def take(self) -> bytes:
        """All records since the last time as a frame; empty if there are none."""
        body = self._all_told()
        if not body:
            return b""
        frame = bytearray()
        self._number(frame, len(body))
        frame += body
        body.clear()
        return bytes(frame)

    def _all_told(self) -> bytearray:
        if self._unchanged:
            self._out.append(_UNCHANGED)
            self._number(self._out, self._unchanged)
            self._unchanged = 0
        return self._out

    def _tag(self, tag: int) -> bytearray:
        out = self._all_told()
        out.append(tag)
        return out

    @staticmethod
    def _number(out: bytearray, number: int) -> None:
        while number > 0x7F:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        out.append(number)


def _folded(number: int) -> int:
    """0, -1, 1, -2, 2, ... as 0, 1, 2, 3, 4, ..."""
    return number << 1 if number >= 0 else (-number << 1) - 1


def _unfolded(number: int) -> int:
    return -(number + 1 >> 1) if number & 1 else number >> 1


def header_line(header: Header) -> bytes:
    """What a tape begins with."""
    return msgspec.json.encode(header) + b"\n"


def read(path: Path) -> tuple[Header, list[Record]]:
    """Of a tape what its process was, and its records.

    Raises:
        TapeDamaged, OSError: as ``recorded``.
    """
    found = recorded(path)
    return found.header, [*found.records]


def recorded(path: Path) -> Recorded:
    """A tape; a frame that was cut off is left out.

    Raises:
        TapeDamaged: it is no tape.
        OSError: it cannot be read.
    """
    with opened(path) as file:
        line = file.readline(_MOST_HEADER)
        try:
            header = msgspec.json.decode(line, type=Header)
            last = _Last()
            frames = _Frames(file)
            records = [*chain.from_iterable(_Frame(each, last).records() for each in frames)]
            return Recorded(header, records, path, frames.end)
        except (ValueError, IndexError, struct.error, OverflowError) as error:
            raise TapeDamaged(path, f"it is no tape of this ARTOS ({error})") from error


class _Frames:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.end = False
        """Whether the file ended; else there are zeros."""

    def __iter__(self) -> Iterator[bytes]:
        while size := self._size():
            if size > _MOST_FRAME:
                raise ValueError(f"a frame has {size} bytes")
            if len(frame := self._file.read(size)) < size:
                self.end = True
                return
            yield frame

    def _size(self) -> int:
        size = shift = 0
        while byte := self._file.read(1):
            size |= (byte[0] & 0x7F) << shift
            shift += 7
            if byte[0] < 0x80:
                return size
            if shift > 7 * _MOST_DIGITS:
                raise ValueError("a frame has no length")
        self.end = True
        return 0


class _Frame:
    def __init__(self, data: bytes, last: _Last) -> None:
        self._data, self._at, self._last = data, 0, last

    def records(self) -> Iterator[Record]:
        while self._at < len(self._data):
            tag = self._data[self._at]
            self._at += 1
            if tag == _BEGUN:
                version = self._number() - 1
                yield Begun(version, self._checksum())
            elif tag == _CALLED:
                yield self._called()
            elif tag == _UNCHANGED:
                for _ in range(self._number()):
                    yield UNCHANGED
            elif tag == _THREADS:
                self._last.turn += self._number()
                yield Threads(self._last.turn, self._number())
            elif tag == _PUBLISHED:
                yield Published(self._checksum())
            elif tag == _PEER:
                learner = self._bytes(self._number()).decode()
                yield Peer(learner, self._number() - 1)
            elif tag <= _LOOKED + RESERVED_OF_KEY:
                yield self._looked(tag - _LOOKED)
            else:
                raise ValueError(f"record {tag} is unknown")

    def _called(self) -> Called:
        last = self._last
        last.firing += _unfolded(self._number())
        last.steps += _unfolded(self._number())
        flagged, progress = self._number(), None
        if flagged & 1:
            (progress,) = _DOUBLE.unpack(self._bytes(_DOUBLE.size))
        return Called(last.firing, last.steps, flagged >> 1, progress)

    def _looked(self, what: int) -> Looked:
        blocks, moved, at = self._number(), self._number(), 0
        if blocks > 1 << 20:
            raise ValueError(f"a look at {blocks} blocks")
        counts = [*self._last.of(what, blocks)]
        for _ in range(moved):
            at += self._number()
            counts[at] += _unfolded(self._number())
        self._last.seen[what, blocks] = counts
        return Looked(what, tuple(counts))

    def _checksum(self) -> int:
        (found,) = _SUM.unpack(self._bytes(_SUM.size))
        return int(found)

    def _bytes(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def _number(self) -> int:
        number = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
            if shift > 7 * _MOST_DIGITS:
                raise ValueError("a number has no end")


UNCHANGED = Looked(-1, ())
"""A look that saw what the last one of its kind had seen."""
