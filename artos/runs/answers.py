"""What servers answered, in files of a run's folder: an exact replay gives actors the same answers.

Each process of a server has one, ``replay/SERVER-N.answers``. It begins with a line of JSON, the
``Header``. Then come frames, one for the requests that were answered together, which is handed to
the kernel before anybody can see the answers: whoever is killed leaves all that an actor has acted
by. So a server is not asked again, whatever it computes on, and may draw at random.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

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

_FRAME = struct.Struct("<QqQ")
"""Bytes of the whole frame, the version that answered, and requests."""
_COLUMNS = (np.dtype("<i8"),) * 3
"""Of each request: its place, its number, and its rows."""
_MOST_HEADER, _MOST_FRAME = 1 << 20, 1 << 28


class Header(msgspec.Struct, frozen=True):
    """Whose answers they are: of which keys, and in which continuation of the run."""

    answers: Annotated[int, msgspec.Meta(ge=1, le=1)] = 1
    keys: tuple[DataKey, ...] = ()
    resumes: Count = 0


class Answer(NamedTuple):
    """What an actor was told: arrays (rows, *shape) by name, and the version that told it."""

    version: int
    arrays: dict[str, NDArray[Any]]


Answers = dict[tuple[int, int], Answer]
"""By place and number of the request."""


def files(run: Path, server: str) -> list[Path]:
    """Those of a server's processes, first the oldest."""
    name = re.compile(rf"{re.escape(server)}-(\d{{1,9}})\.answers")
    folder = run / FOLDER
    there = folder.iterdir() if folder.is_dir() else ()
    found = [(int(match[1]), file) for file in there if (match := name.fullmatch(file.name))]
    return [file for _, file in sorted(found)]


class AnswersFile(Closing):
    """Writes those of a process of ``server``.

    Raises:
        OSError: it cannot be written; when it is made, or at any frame.
    """

    def __init__(self, run: Path, server: ServerSpec, resumes: int) -> None:
        (run / FOLDER).mkdir(exist_ok=True)
        number, self._keys = len(files(run, server.name)), server.answers
        path = run / FOLDER / f"{server.name}-{number}.answers"
        self._file = AppendFile(path, new=True)
        header = Header(keys=server.answers, resumes=resumes)
        self._file.append(msgspec.json.encode(header) + b"\n")

    def write(
        self,
        columns: Iterable[NDArray[Any]],
        answers: Mapping[str, NDArray[Any]],
        version: int,
    ) -> None:
        """Write what is answered together: ``columns`` are places, numbers and rows of requests."""
        numbers = [np.asarray(c, kind) for c, kind in zip(columns, _COLUMNS, strict=True)]
        rows = [np.asarray(answers[key.name]).astype(key.dtype) for key in self._keys]
        body = b"".join(array.tobytes() for array in (*numbers, *rows))
        head = _FRAME.pack(_FRAME.size + len(body), version, len(numbers[0]))
        self._file.append(head + body)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read(path: Path) -> tuple[Header, Answers]:
    """Whose answers they are, and all of them; what was cut off with its writer is left out.

    Of a request that is answered twice, as the first to do so was killed before that was seen, the
    last answer is the one.

    Raises:
        TapeDamaged: it is no such file.
        OSError: it cannot be read.
    """
    with opened(path) as file:
        try:
            header = msgspec.json.decode(file.readline(_MOST_HEADER), type=Header)
            found: Answers = {}
            for frame in _frames(file):
                found.update(_answers(frame, header.keys))
        except (ValueError, TypeError, struct.error, msgspec.DecodeError) as error:
            raise TapeDamaged(path, f"these are no answers of this ARTOS ({error})") from error
        return header, found


def _frames(file: BinaryIO) -> Iterator[bytes]:
    while len(head := file.read(_FRAME.size)) == _FRAME.size:
        size = _FRAME.unpack(head)[0] - _FRAME.size
        if not 0 <= size <= _MOST_FRAME:
            raise ValueError(f"a frame has {size} bytes")
        if len(body := file.read(size)) < size:
            return
        yield head + body


def _answers(frame: bytes, keys: Iterable[DataKey]) -> Iterator[tuple[tuple[int, int], Answer]]:
    _, version, requests = _FRAME.unpack_from(frame)
    at = _FRAME.size

    def array(kind: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        nonlocal at
        made = np.frombuffer(frame, kind, int(np.prod(shape)), at).reshape(shape)
        at += made.nbytes
        return made

    if requests > len(frame):
        raise ValueError(f"a frame of {requests} requests")
    places, numbers, counts = (array(kind, (requests,)) for kind in _COLUMNS)
    if requests and not 0 <= counts.min() <= counts.max() <= len(frame):
        raise ValueError("a request with too many rows")
    total = int(counts.sum())
    arrays = {key.name: array(np.dtype(key.dtype), (total, *key.shape)) for key in keys}
    if at != len(frame):
        raise ValueError(f"{len(frame) - at} bytes more than it tells of")
    for place, number, last, count in zip(places, numbers, counts.cumsum(), counts, strict=True):
        rows = slice(int(last - count), int(last))
        own = {name: whole[rows] for name, whole in arrays.items()}
        yield (int(place), int(number)), Answer(version, own)
