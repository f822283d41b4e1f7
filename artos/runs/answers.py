"""What servers answered, in files of a run's folder: an exact replay gives actors the same answers.

Each process of a server has one, ``replay/SERVER-N.answers``. It begins with a line of JSON, the
``Header``. Then come frames, one for the requests that were answered together, which is handed to
the kernel before anybody can see the answers: whoever is killed leaves all that an actor has acted
by. So a server is not asked again, whatever it computes on, and may draw at random.

On a node of a cluster a server writes the frames alone into the node's memory. They travel ahead of
the rows that were made from them (``workers.agent.answers``), and lie in the run's folder before
these are taken (``head.replay.answers``).
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from artos.runs.tape import FOLDER, TapeDamaged
from artos.specs.fields import Count
from artos.specs.keys import DataKey
from artos.specs.servers import ServerSpec
from artos.system.append_file import AppendFile
from artos.system.closing import Closing
from artos.system.regular_file import opened

MOST_BYTES = 1 << 32
"""Of a process, or of all of a server on one node: what is beyond is not recorded."""
_FRAME = struct.Struct("<QqQ")
"""Bytes of the whole frame, the version that answered, and requests."""
_COLUMN = np.dtype("<i8")
_COLUMNS = 3
"""Of each request: its place, its number, and its rows."""
_MOST_HEADER = 1 << 20
_NTH_BITS = 24
"""Of where an answer is: how many requests a frame may have."""
_DAMAGED = (ValueError, TypeError, OverflowError, struct.error, msgspec.DecodeError)


class Header(msgspec.Struct, frozen=True):
    """Whose answers they are: of which keys, and in which continuation of the run.

    ``source`` names the node and the process there, if they came from a node.
    """

    answers: Annotated[int, msgspec.Meta(ge=1, le=1)] = 1
    keys: tuple[DataKey, ...] = ()
    resumes: Count = 0
    source: str = ""


class Answer(NamedTuple):
    """What an actor was told: arrays (rows, *shape) by name, and the version that told it."""

    version: int
    arrays: dict[str, NDArray[Any]]


def files(run: Path, server: str) -> list[Path]:
    """Those of a server's processes, first the oldest."""
    return [file for _, file in numbered(run / FOLDER, server)]


def numbered(folder: Path, server: str) -> list[tuple[int, Path]]:
    """The files of a server in ``folder``, and their numbers, first the lowest."""
    name = re.compile(rf"{re.escape(server)}-(\d{{1,9}})\.answers")
    found = ((name.fullmatch(file.name), file) for file in _inside(folder))
    return sorted((int(match[1]), file) for match, file in found if match)


def _inside(folder: Path) -> Iterable[Path]:
    return folder.iterdir() if folder.is_dir() else ()


def begun(run: Path, server: str, resumes: int) -> Iterator[tuple[Path, str, int]]:
    """The files of that continuation, their sources, and how many bytes of frames each has.

    Raises:
        OSError: one cannot be read.
    """
    for path in files(run, server):
        with opened(path) as file:
            line = file.readline(_MOST_HEADER)
        with suppress(*_DAMAGED):
            header = msgspec.json.decode(line, type=Header)
            if header.resumes == resumes:
                yield path, header.source, path.stat().st_size - len(line)


class AnswersFile(Closing):
    """Adds what a process of ``server`` answers to the file at ``path``, ``most_bytes`` of it.

    With ``new`` that file must not exist yet.

    Raises:
        OSError: it cannot be written, or is too long; when it is made, or at any frame.
    """

    def __init__(
        self, path: Path, server: ServerSpec, most_bytes: int = MOST_BYTES, *, new: bool = False
    ) -> None:
        self._keys, self._left = server.answers, most_bytes
        self._file = AppendFile(path, new=new)

    @classmethod
    def begin(
        cls,
        folder: Path,
        server: ServerSpec,
        header: Header | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> AnswersFile:
        """A new file in ``folder``; without a ``header`` it has frames only.

        Raises:
            OSError: it cannot be made; nothing is left of it.
        """
        folder.mkdir(exist_ok=True)
        number = max((number for number, _ in numbered(folder, server.name)), default=-1) + 1
        file = cls(folder / f"{server.name}-{number}.answers", server, most_bytes, new=True)
        try:
            file.append(b"" if header is None else msgspec.json.encode(header) + b"\n")
        except OSError:
            file.close()
            file._file.path.unlink()
            raise
        return file

    def write(
        self,
        columns: Iterable[NDArray[Any]],
        answers: Mapping[str, NDArray[Any]],
        version: int,
    ) -> None:
        """Write what is answered together: ``columns`` are places, numbers and rows of requests."""
        numbers = [np.asarray(column, _COLUMN) for column in columns]
        rows = [np.asarray(answers[key.name]).astype(key.dtype) for key in self._keys]
        body = b"".join(array.tobytes() for array in (*numbers, *rows))
        self.append(_FRAME.pack(_FRAME.size + len(body), version, len(numbers[0])) + body)

    def append(self, piece: bytes | memoryview) -> None:
        """Write frames, or a part of one, as they are."""
        self._left -= len(piece)
        if self._left < 0:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        self._file.append(piece)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Answers:
    """What a server answered: files of it that were read, all of one part of a run.

    Of a request that is answered twice, as the first to do so was killed before that was seen, the
    last answer is the one.
    """

    def __init__(self) -> None:
        self._keys: tuple[DataKey, ...] = ()
        self._maps: list[memoryview] = []
        self._frames: list[tuple[int, int]] = []
        """Of each frame which file it is in, and where it begins."""
        self._found: dict[int, _Place] = {}

    def add(self, path: Path, part: int, keys: tuple[DataKey, ...]) -> bool:
        """Also those of a file, if they are of that part of the run; says whether they are.

        What was cut off with its writer is left out.

        Raises:
            TapeDamaged: it is no such file, or has answers of other keys.
            OSError: it cannot be read.
        """
        with opened(path) as file:
            line = file.readline(_MOST_HEADER)
            if not line.endswith(b"\n"):
                return False
            try:
                header = msgspec.json.decode(line, type=Header)
                if header.resumes != part:
                    return False
                if header.keys != keys:
                    raise ValueError("it answers otherwise now")
                whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
                self._keys = keys
                self._index(whole, len(line))
            except _DAMAGED as error:
                raise TapeDamaged(path, f"these are no answers of this ARTOS ({error})") from error
        return True

    def _index(self, whole: memoryview, at: int) -> None:
        self._maps.append(whole)
        sizes = [_row_bytes(key) for key in self._keys]
        while at + _FRAME.size <= len(whole):
            size, _, requests = _FRAME.unpack_from(whole, at)
            if size < _FRAME.size:
                raise ValueError(f"a frame of {size} bytes")
            if at + size > len(whole):
                return  # its writer was killed
            places, numbers, counts = self._columns(whole, at, requests, size)
            rows = int(counts.sum())
            if (requests and counts.min() < 0) or rows > size:
                raise ValueError(f"requests of {rows} rows")
            wanted = _FRAME.size + _COLUMNS * _COLUMN.itemsize * requests + rows * sum(sizes)
            if size != wanted:
                raise ValueError(f"a frame of {size} bytes, not {wanted}")
            frame = len(self._frames)
            self._frames.append((len(self._maps) - 1, at))
            for nth, (place, number) in enumerate(
                zip(places.tolist(), numbers.tolist(), strict=True)
            ):
                self._found.setdefault(place, _Place()).add(number, frame, nth)
            at += size

    @staticmethod
    def _columns(
        whole: memoryview, at: int, requests: int, size: int
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        if requests > size or requests >> _NTH_BITS:
            raise ValueError(f"a frame of {requests} requests")
        columns = np.frombuffer(whole, _COLUMN, _COLUMNS * requests, at + _FRAME.size)
        first, second, third = columns.reshape(_COLUMNS, requests)
        return first, second, third

    def get(self, place: int, number: int) -> Answer | None:
        """The answer to that request of a place, in arrays that can be written; None: not there."""
        found = self._found[place].get(number) if place in self._found else None
        if found is None:
            return None
        file, at = self._frames[found[0]]
        whole = self._maps[file]
        size, version, requests = _FRAME.unpack_from(whole, at)
        counts = self._columns(whole, at, requests, size)[2]
        before, rows = int(counts[: found[1]].sum()), int(counts[found[1]])
        at += _FRAME.size + _COLUMNS * _COLUMN.itemsize * requests
        arrays = {}
        for key in self._keys:
            row = _row_bytes(key)
            values = np.frombuffer(
                whole, np.dtype(key.dtype), rows * _row_values(key), at + before * row
            )
            arrays[key.name] = values.reshape(rows, *key.shape).copy()
            at += int(counts.sum()) * row
        return Answer(version, arrays)


class _Place:
    """Where the answers to the requests of a place are, by their numbers, which mostly rise."""

    def __init__(self) -> None:
        self._numbers, self._at = array("q"), array("q")

    def add(self, number: int, frame: int, nth: int) -> None:
        """The answer to a request is the ``nth`` one of a frame; it takes the place of another."""
        at = bisect_left(self._numbers, number)
        if at < len(self._numbers) and self._numbers[at] == number:
            self._at[at] = frame << _NTH_BITS | nth
            return
        self._numbers.insert(at, number)
        self._at.insert(at, frame << _NTH_BITS | nth)

    def get(self, number: int) -> tuple[int, int] | None:
        """The frame, and which of its requests; None if there is none."""
        at = bisect_left(self._numbers, number)
        if at == len(self._numbers) or self._numbers[at] != number:
            return None
        return self._at[at] >> _NTH_BITS, self._at[at] & (1 << _NTH_BITS) - 1


def _row_values(key: DataKey) -> int:
    return int(np.prod(key.shape, dtype=np.int64))


def _row_bytes(key: DataKey) -> int:
    return np.dtype(key.dtype).itemsize * _row_values(key)
