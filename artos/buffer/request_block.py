"""The block of a server: what actors ask it for, and what it answers, in shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from artos.buffer.doorbell import fence, ordered
from artos.buffer.layout import LAYOUT_VERSION, LINE, PAGE, WORD, align, description
from artos.buffer.segment import Segment
from artos.errors import BadRequest, LayoutMismatch
from artos.specs.keys import DataKey
from artos.specs.servers import ServerSpec

MAGIC = 0x4152544F_53524551  # "ARTOSREQ"
_PREAMBLE = 4 * WORD
Arrays = dict[str, NDArray[Any]]


class RequestSpec(msgspec.Struct, frozen=True):
    """What fixes the layout: the server's arrays, and how many actors have seats there."""

    server: ServerSpec
    actors: int

    @property
    def places(self) -> int:
        """Seats of all actors: ``seats`` of actor 0, then those of actor 1, ..."""
        return self.actors * self.server.seats


class _Layout:
    """Byte offsets: preamble, description, a column of words of each kind, an array of each key."""

    def __init__(self, spec: RequestSpec) -> None:
        self.text = msgspec.json.encode(spec)
        at = align(_PREAMBLE + len(self.text), PAGE)
        self.serving = at
        at += LINE
        self.columns = []
        for _ in range(4):
            self.columns.append(at)
            at = align(at + spec.places * WORD, LINE)
        self.arrays: list[int] = []
        for key in (*spec.server.asks, *spec.server.answers):
            at = align(at, PAGE)
            self.arrays.append(at)
            at += spec.places * key.row_bytes(spec.server.rows)
        self.size = align(at, PAGE)


class RequestBlock:
    """A seat for each request that can be under way; it has one writer on either side.

    An actor fills its seat and raises ``asked`` last, the server fills in the answer and raises
    ``answered`` to the number that it answers, last, too. So whoever is killed leaves a request
    that is open or answered, never half of either. A request that was open when its actor was
    killed is answered to no one: the next one has another number.
    """

    def __init__(self, segment: Segment, spec: RequestSpec) -> None:
        self.segment, self.spec = segment, spec
        layout, server = _Layout(spec), spec.server
        columns = [
            np.ndarray(spec.places, np.int64, segment.memory, offset) for offset in layout.columns
        ]
        self.asked, self.rows, self.answered, self.versions = columns
        self._serving = np.ndarray(1, np.int64, segment.memory, layout.serving)
        keys = (*server.asks, *server.answers)
        arrays = [self._array(key, at) for key, at in zip(keys, layout.arrays, strict=True)]
        named = [(key.name, array) for key, array in zip(keys, arrays, strict=True)]
        self.asks: Arrays = dict(named[: len(server.asks)])
        """Data key → (places, rows, *shape), written by the actors."""
        self.answers: Arrays = dict(named[len(server.asks) :])
        """The same, written by the server."""

    def _array(self, key: DataKey, offset: int) -> NDArray[Any]:
        shape = (self.spec.places, *key.row_shape(self.spec.server.rows))
        return np.ndarray(shape, key.dtype, self.segment.memory, offset)

    @classmethod
    def create(cls, path: Path, spec: RequestSpec) -> RequestBlock:
        """Create the file at full size with every page present.

        Raises:
            ShmTooSmall: there is not enough shared memory; nothing is left behind.
        """
        layout = _Layout(spec)
        segment = Segment.create(path, layout.size)
        segment.memory[_PREAMBLE : _PREAMBLE + len(layout.text)] = layout.text
        block = cls(segment, spec)
        block.versions[...] = -1
        words = np.ndarray(4, np.int64, segment.memory)
        words[1:] = (LAYOUT_VERSION, len(layout.text), layout.size)
        fence()
        words[0] = MAGIC
        return block

    @classmethod
    def attach(cls, path: Path) -> RequestBlock:
        """Map an existing block.

        Raises:
            LayoutMismatch: not such a block, or of another layout version.
        """
        segment = Segment.attach(path)
        spec = description(str(path), segment.memory, MAGIC, _PREAMBLE, RequestSpec)
        if (size := _Layout(spec).size) != len(segment):
            found = f"{len(segment)} bytes instead of {size}"
            raise LayoutMismatch(str(path), found, LAYOUT_VERSION)
        return cls(segment, spec)

    # -- an actor's side -----------------------------------------------------------------------

    def ask(self, place: int, asked: Mapping[str, NDArray[Any]], rows: int, after: int = 0) -> int:
        """Make the first ``rows`` rows of these arrays the request of a seat; returns its number.

        That is above the last one, and above ``after``. What was asked there before is given up,
        whether or not it is answered.

        Raises:
            BadRequest: an array is missing, or has another shape or kind; nothing is asked.
        """
        number = max(int(self.asked[place]), after) + 1
        for name, array in self.asks.items():
            if (given := asked.get(name)) is None:
                raise BadRequest(self.spec.server.name, name, "is missing")
            wanted = (min(rows, array.shape[1]), *array.shape[2:])
            if given.shape != wanted:
                why = f"has shape {given.shape}, not {wanted}: at most {array.shape[1]} rows"
                raise BadRequest(self.spec.server.name, name, why)
            if why := uncast(given, array.dtype):
                raise BadRequest(self.spec.server.name, name, why)
            array[place, :rows] = given
        self.rows[place] = rows
        ordered()
        self.asked[place] = number
        return number

    def answer_to(self, place: int, number: int) -> Arrays | None:
        """The answer to a seat's request, to be read before the next one; None if not yet there."""
        if self.answered[place] != number:
            return None
        ordered()
        rows = int(self.rows[place])
        return {name: array[place, :rows] for name, array in self.answers.items()}

    # -- the server's side ---------------------------------------------------------------------

    @property
    def served(self) -> bool:
        """Whether a server has come; it may be gone by now, and its successor on its way."""
        return bool(self._serving[0])

    def serve(self) -> None:
        """A server begins."""
        self._serving[0] += 1

    def open(self, known: NDArray[np.int64]) -> NDArray[np.intp]:
        """The seats whose request is not answered, and of another number than ``known``."""
        asked = self.asked
        found: NDArray[np.intp] = ((asked != self.answered) & (asked != known)).nonzero()[0]
        ordered()
        return found

    def read(self, places: NDArray[np.intp]) -> tuple[Arrays, NDArray[np.int64]]:
        """The rows of these seats one after the other, (B, *shape) by key, and their counts.

        They are views where all seats in a row have full requests.
        """
        counts, most = self.rows[places], self.spec.server.rows
        if (counts == most).all():
            first, last = int(places[0]), int(places[-1])
            at = slice(first, last + 1) if last - first + 1 == len(places) else places
            found = {
                name: array[at].reshape(-1, *array.shape[2:]) for name, array in self.asks.items()
            }
            return found, counts
        pairs = list(zip(places.tolist(), counts.tolist(), strict=True))
        return {
            name: np.concatenate([array[place, :rows] for place, rows in pairs])
            for name, array in self.asks.items()
        }, counts

    def answer(
        self,
        places: NDArray[np.intp],
        numbers: NDArray[np.int64],
        counts: NDArray[np.int64],
        answers: Mapping[str, NDArray[Any]],
        version: int,
    ) -> None:
        """Answer the requests of these ``numbers``, whose rows were read together."""
        for name, array in self.answers.items():
            rows, at = answers[name], 0
            for place, count in zip(places.tolist(), counts.tolist(), strict=True):
                array[place, :count] = rows[at : at + count]
                at += count
        self.versions[places] = version
        ordered()
        self.answered[places] = numbers

    def __repr__(self) -> str:
        waiting = int((self.asked != self.answered).sum())
        return f"<RequestBlock {self.spec.server.name}: {waiting} of {self.spec.places} wait>"


def uncast(given: Any, to: np.dtype[Any]) -> str:
    """Why an array is not stored as this dtype: numbers would become others; "" if it can be."""
    numbers = np.asarray(given)
    kind = numbers.dtype
    fits = np.can_cast(kind, to, "same_kind")
    if kind.kind in "biu" and to.kind in "biu":  # whole numbers: as long as they are the same
        fits = np.can_cast(kind, to) or bool((numbers == numbers.astype(to)).all())
    return "" if fits else f"has dtype {kind}, and {to} is declared: convert it, or declare {kind}"


def block_bytes(spec: RequestSpec) -> int:
    """Bytes of the file of a block."""
    return _Layout(spec).size
