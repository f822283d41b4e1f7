"""A server at work: it gathers the requests of actors, and answers many at a time."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from artos.buffer.object_region import ObjectRegion
from artos.buffer.request_block import RequestBlock, uncast
from artos.errors import BadAnswer
from artos.protocol.invocations import Done, Failed, Invoke
from artos.runs.answers import AnswersFile
from artos.runtime.member import TRACE_BYTES, Line
from artos.specs.keys import PARAMS
from artos.specs.servers import Server

if TYPE_CHECKING:  # with torch, which other servers do without
    from artos.runtime.device_turns import DeviceTurns

_LONGEST_SLEEP = 3600.0
_log = logging.getLogger(__name__)


class Gathers(Protocol):
    """Says when it is time to answer: ``triggers.gathering``, which this floor cannot import."""

    def asked(self, actor: int, seat: int) -> None:
        """An actor has sent a request."""

    def take(self) -> bool:
        """Whether it is time to answer all that have come."""

    def patience(self, longest: float) -> float:
        """Seconds until it is to be asked again, if nothing comes."""


class ServerRole:
    """Runs a server: looks for open requests, answers those its trigger has fired for.

    ``ring`` wakes an actor. ``weights`` is where the server reads the newest version, as this
    ``reader``; None if it reads none. With ``turns`` it has its device for one batch at a time.
    What it answers goes into ``record`` first, if there is one; if that fails, the rest of the run
    cannot be replayed, and goes on.

    What it knows of requests is in the block. So a server that takes the place of one that was
    killed finds all that is open, and wakes every actor, in case that one could not any more.
    """

    def __init__(
        self,
        server: Server,
        block: RequestBlock,
        gathers: Gathers,
        ring: Callable[[int], None],
        weights: ObjectRegion | None = None,
        reader: int = 0,
        turns: DeviceTurns | None = None,
        record: AnswersFile | None = None,
    ) -> None:
        self._record = record
        self._server, self._block, self._gathers, self._ring = server, block, gathers, ring
        self._weights, self._reader = weights, reader
        self._turns = turns
        self._private: dict[str, NDArray[Any]] = {}
        self._version = -1
        self._seats = block.spec.server.seats
        self._known = block.answered.copy()
        self._open = np.zeros(block.spec.places, bool)
        block.serve()
        for actor in range(block.spec.actors):
            ring(actor)

    def serve(self, line: Line) -> int:
        """Answer until told to stop; returns the exit status of the process.

        If user code raises, that is reported, and the supervising process decides what then.
        """
        try:
            while not line.told_to_stop():
                self.look()
                if self._gathers.take():
                    self.answer()
                else:
                    line.wait(self._gathers.patience(_LONGEST_SLEEP))
        except (Exception, SystemExit):
            line.send(Failed(0, self.step(), traceback.format_exc()[-TRACE_BYTES:]))
            return 3
        return 0

    def look(self) -> None:
        """Tell the trigger of requests that are new."""
        for place in self._block.open(self._known).tolist():
            self._known[place] = self._block.asked[place]
            self._open[place] = True
            self._gathers.asked(*divmod(place, self._seats))

    def answer_all(self) -> None:
        """Answer what is open, without waiting for more: in one process nobody else can ask."""
        self.look()
        self._gathers.take()
        self.answer()

    def answer(self) -> None:
        """Answer all requests that the trigger knows of.

        Raises:
            BadAnswer: an answer is not what the server declares.
        """
        places, block = self._open.nonzero()[0], self._block
        if not len(places):
            return
        self._open[places] = False
        numbers = self._known[places] = block.asked[places]
        asked, counts = block.read(places)
        with self._turns.turn() if self._turns else nullcontext():
            self._bind()
            answers = self._checked(self._server.answer(asked), int(counts.sum()))
        self._note((places, numbers, counts), answers)
        block.answer(places, numbers, counts, answers, self._version)
        for actor in dict.fromkeys((places // self._seats).tolist()):
            self._ring(actor)

    def _bind(self) -> None:
        if self._weights is not None and self._weights.version != self._version:
            slot = self._weights.bind(self._reader, self._private)
            self._server.bind(slot.arrays[PARAMS], slot.version)
            self._version = slot.version

    def _note(self, columns: tuple[NDArray[Any], ...], answers: Mapping[str, Any]) -> None:
        if self._record is None:
            return
        try:
            self._record.write(columns, answers, self._version)
        except OSError as error:
            _log.warning("the run cannot be replayed from here on: %s", error.strerror or error)
            self._record.close()
            self._record = None

    def _checked(self, found: Mapping[str, NDArray[Any]], rows: int) -> Mapping[str, NDArray[Any]]:
        spec = self._block.spec.server
        if not isinstance(found, Mapping):
            keys = ", ".join(key.name for key in spec.answers)
            why = f"returned a {type(found).__name__}: return a dict of arrays with the keys {keys}"
            raise BadAnswer(spec.name, "", why)
        for key in spec.answers:
            wanted = (rows, *key.shape)
            if (array := found.get(key.name)) is None:
                raise BadAnswer(spec.name, key.name, "is missing: answer returns all that answers")
            if np.shape(array) != wanted:
                why = f"has shape {np.shape(array)}; return {wanted}, a row for each that was asked"
                raise BadAnswer(spec.name, key.name, why)
            if why := uncast(array, np.dtype(key.dtype)):
                raise BadAnswer(spec.name, key.name, why)
        return found

    # -- as every role -------------------------------------------------------------------------

    def run(self, call: Invoke) -> Done:
        """Nobody invokes a server: what it does is asked for by actors."""
        raise AssertionError(f"{self._block.spec.server.name} was invoked: {call}")

    def step(self) -> int:
        """The version by which it answers."""
        return max(0, self._version)

    def snapshot(self) -> dict[str, Any]:
        """Nothing: what belongs to an actor comes with its request."""
        return {}

    def go_on(self, found: dict[str, Any]) -> None:
        """Do nothing: see ``snapshot``."""

    def close(self) -> None:
        """Close what the server holds open; leave the pool of its device."""
        self._server.close()
        if self._record is not None:
            self._record.close()
        if self._turns is not None:
            self._turns.close()
