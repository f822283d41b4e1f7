"""A template's memory on its way out of an executor, and into it, ahead of actors that need it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from artos.clock import Clock, Deadline
from artos.errors import BadBundle
from artos.protocol import steering
from artos.protocol.message import Message
from artos.system.closing import Closing
from artos.transport.served_files import Incoming
from workers.checkpoint.checkpointer import Checkpointer

_PIECE_SECONDS = 30.0
"""Longest wait for a piece of it, or for the run to ask for one."""
_KEPT_SECONDS = 60.0
"""How long it is kept for actors that do not come."""

Submit = Callable[[Callable[[], str]], Future[str]]


@dataclass
class _Coming:
    """Memory that comes from another node, or has come."""

    file: Incoming
    until: Deadline
    """Of the piece that was asked for; once it is here, of actors that need it."""
    unpacking: Future[str] | None = None
    name: str = ""
    """Of what is here."""


class Memories(Closing):
    """Packs and unpacks memory by ``submit``, in a thread; everything else is done in ``advance``.

    ``own`` is the file with the memory that the actors here share. ``tell`` sends to the run.
    """

    def __init__(
        self,
        images: Checkpointer,
        own: Path,
        submit: Submit,
        tell: Callable[[Message], None],
        clock: Clock,
    ) -> None:
        self._images, self._own = images, own
        self._submit, self._tell, self._clock = submit, tell, clock
        self._packing: dict[int, Future[str]] = {}
        self._packed: dict[int, Deadline] = {}
        self._names: dict[int, str] = {}
        """Of memory that was packed here, which stays."""
        self._coming: dict[int, _Coming] = {}
        self._lets_in = False

    # -- out -----------------------------------------------------------------------------------

    def pack(self, number: int) -> None:
        """Make a bundle of the actors' memory."""
        self._packing[number] = self._submit(lambda: self._images.pack_memory(self._own, number))

    def holds(self, number: int) -> bool:
        """Whether the bundle with that number is here, to be sent."""
        return number in self._packed

    def sent(self, piece: steering.BundlePiece) -> None:
        """The run, which fetches it once, was sent a piece of it."""
        if piece.start + len(piece.content) >= piece.size:
            self._drop_packed(piece.number)
        else:
            self._packed[piece.number] = Deadline(_PIECE_SECONDS, self._clock)

    def _drop_packed(self, number: int) -> None:
        del self._packed[number]
        self._images.bundle(number).unlink(missing_ok=True)

    # -- in ------------------------------------------------------------------------------------

    def fetch(self, number: int) -> None:
        """Fetch it from the run, unless it is here; the run is told once it is, or cannot be."""
        known = self._coming.get(number)
        name = self._names.get(number, "") if known is None else known.name
        if known is not None and not name:
            return  # it is on its way
        if name and self._images.has_memory(name):
            if known is not None:
                self._keep(known, name)
            self._tell(steering.MemoryHere(number))
            return
        try:
            file = Incoming(number, self._images.bundle(number))
        except OSError as error:
            self._tell(steering.MemoryHere(number, str(error)))
            return
        self._coming[number] = coming = _Coming(file, Deadline(_PIECE_SECONDS, self._clock))
        self._tell(coming.file.wish)

    def is_coming(self, number: int) -> bool:
        """Whether it is on its way here: neither here nor given up."""
        return number in self._coming and not self._coming[number].name

    def take_piece(self, piece: steering.BundlePiece) -> bool:
        """Take in a piece; returns whether it is one of memory."""
        if (coming := self._coming.get(piece.number)) is None:
            return False
        if coming.unpacking is None and not coming.name:
            try:
                coming.file.take(piece)
            except (BadBundle, OSError) as error:
                self._give_up(piece.number, coming, str(error))
                return True
            if coming.file.whole:
                self._unpack(piece.number, coming)
            else:
                coming.until = Deadline(_PIECE_SECONDS, self._clock)
                self._tell(coming.file.wish)
        return True

    def let_in(self) -> None:
        """Unpack what has come, and what comes: what is made for the actors here has its room."""
        self._lets_in = True
        for number, coming in self._coming.items():
            if coming.file.whole and coming.unpacking is None and not coming.name:
                self._unpack(number, coming)

    def _unpack(self, number: int, coming: _Coming) -> None:
        if self._lets_in:
            coming.unpacking = self._submit(lambda: self._images.unpack_memory(number))

    def _keep(self, coming: _Coming, name: str) -> None:
        coming.name, coming.unpacking = name, None
        coming.until = Deadline(_KEPT_SECONDS, self._clock)
        self._images.awaited.add(name)

    def _give_up(self, number: int, coming: _Coming, why: str) -> None:
        del self._coming[number]
        coming.file.close()
        self._images.bundle(number).unlink(missing_ok=True)
        self._tell(steering.MemoryHere(number, why))

    # -- both ----------------------------------------------------------------------------------

    def advance(self) -> None:
        """Advance what is under way. Never waits."""
        for number, packing in tuple(self._packing.items()):
            if packing.done():
                del self._packing[number]
                try:
                    name = packing.result()
                except Exception as error:
                    self._tell(steering.Packed(number, str(error)))
                    continue
                self._images.awaited.add(name)  # bundles of actors refer to it
                self._names[number] = name
                self._packed[number] = Deadline(_PIECE_SECONDS, self._clock)
                self._tell(steering.Packed(number, memory=name))
        for number, until in tuple(self._packed.items()):
            if until.passed:  # the run has given it up
                self._drop_packed(number)
        for number, coming in tuple(self._coming.items()):
            if coming.unpacking is not None and coming.unpacking.done():
                try:
                    self._keep(coming, coming.unpacking.result())
                except Exception as error:  # a bundle from another node may hold anything
                    self._give_up(number, coming, str(error))
                    continue
                self._tell(steering.MemoryHere(number))
            elif coming.until.passed and coming.name:
                self._images.await_no_longer(coming.name)
            elif coming.until.passed and not coming.file.whole:
                self._give_up(number, coming, f"no piece of it came for {_PIECE_SECONDS:g} s")

    def close(self) -> None:
        """Remove the bundles. May be called twice."""
        for coming in self._coming.values():
            coming.file.close()
        for number in (*self._packing, *self._packed, *self._coming):
            self._images.bundle(number).unlink(missing_ok=True)
        self._packing, self._packed, self._coming = {}, {}, {}
