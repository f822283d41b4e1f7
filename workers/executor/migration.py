"""Moves actors out of an executor and into it: as bundles, which travel through the run.

A bundle is an actor's image, or a file of what it held.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from artos.clock import Clock, Deadline
from artos.errors import ArtosError, BadBundle, BadMessage
from artos.protocol import steering
from artos.protocol.message import Message, Refusal
from artos.runtime.held import carry
from artos.specs.members import Member
from artos.system.closing import Closing
from artos.transport.served_files import Incoming, cut
from workers.actors.process_manager import ProcessManager
from workers.checkpoint.images import Image
from workers.executor.memories import Memories

P = ParamSpec("P")
T = TypeVar("T")

_AT_ONCE = 2
"""Bundles fetched at a time; each has one piece on its way."""
_PIECE_SECONDS = 30.0
"""Longest wait for a piece of a bundle; then its actor starts again."""
_UNPACK_SECONDS = 60.0
"""Longest wait for the unpacking of a bundle that is not wanted any more."""


@dataclass
class _Outgoing:
    """An actor that is to move out."""

    member: Member
    image: bool = True
    """Whether it is to move by its image."""
    without: str = ""
    """The memory that need not be in the bundle."""
    packing: Future[str] | Future[None] | None = None
    """Begins once there is an image of the actor, or what it held."""
    packed: bool = False


@dataclass
class _Coming:
    """An actor that is to move in."""

    member: Member
    file: Incoming
    held: bool
    """Whether it is what the actor held, and no image."""
    memory: int
    """The bundle with the memory that it needs, 0: none."""
    until: Deadline | None = None
    """The deadline of the piece that was asked for."""
    unpacking: Future[Image | None] | None = None
    restoring: bool = False


class Migration(Closing):
    """Packs and unpacks in a thread of its own; everything else happens in ``advance``.

    ``held_path`` is where an actor writes down what it holds as it ends, and finds it again.
    ``tell`` sends to the run, ``ring`` asks for an ``advance`` soon. ``arrived`` is called with a
    member that goes on here, and the seconds that its move took.
    """

    def __init__(
        self,
        actors: ProcessManager,
        held_path: Callable[[Member], Path],
        tell: Callable[[Message], None],
        ring: Callable[[], None],
        arrived: Callable[[Member, float], None],
        clock: Clock,
    ) -> None:
        self._moves, self._images = actors.moves, actors.images
        self._held_path, self._tell, self._ring = held_path, tell, ring
        self._tell_arrived, self._clock = arrived, clock
        self._outgoing: dict[int, _Outgoing] = {}
        self._coming: dict[int, _Coming] = {}
        # Not for restores: a restored process dies with the thread that asked for it.
        self._thread = ThreadPoolExecutor(1, "migration")
        self.memories = Memories(actors.images, self._moves.memory, self._in_thread, tell, clock)
        """What actors share that move, on its way."""

    # -- out -----------------------------------------------------------------------------------

    def pack(self, order: steering.Pack) -> None:
        """Make a bundle of an idle member that lives here."""
        self._outgoing[order.number] = _Outgoing(order.member, order.image, order.without)
        self.advance()

    def send_piece(self, wanted: steering.ReadPiece) -> None:
        """Send the run a piece of a bundle."""
        number, outgoing = wanted.number, self._outgoing.get(wanted.number)
        piece = steering.BundlePiece(number, wanted.start)
        if self.memories.holds(number) or (outgoing is not None and outgoing.packed):
            try:
                piece = cut(self._bundle(number), wanted)
            except (BadMessage, OSError) as error:
                self._tell(Refusal(str(error)))
        self._tell(piece)
        if self.memories.holds(number):
            self.memories.sent(piece)

    def _advance_outgoing(self, number: int, outgoing: _Outgoing) -> None:
        member = outgoing.member
        try:
            if outgoing.packing is None:
                try:
                    image = self._moves.image_of(member) if outgoing.image else None
                except (ArtosError, OSError):
                    image, outgoing.image = None, False
                if image is not None:
                    home = self._moves.home_of(member)
                    outgoing.packing = self._in_thread(
                        self._images.pack, image, home, number, outgoing.without
                    )
                elif not outgoing.image and self._moves.hand_over(member):
                    held, bundle = self._held_path(member), self._bundle(number)
                    outgoing.packing = self._in_thread(carry, held, bundle)
            elif outgoing.packing.done():
                without, outgoing.packed = outgoing.packing.result() or "", True
                self._tell(steering.Packed(number, held=not outgoing.image, memory=without))
        except Exception as error:
            del self._outgoing[number]
            self._tell(steering.Packed(number, str(error)))

    # -- in ------------------------------------------------------------------------------------

    def fetch(self, member: Member, number: int, *, held: bool, memory: int = 0) -> None:
        """Fetch, from the run, the bundle of a member that is to live here, and its ``memory``."""
        self._moves.expect_image(member)
        if memory:
            self.memories.fetch(memory)
        try:
            file = Incoming(number, self._bundle(number))
        except OSError as error:
            self._tell(steering.BundleRejected(number, str(error)))
            self._moves.give_up_image(member)
            return
        self._coming[number] = _Coming(member, file, held, memory)
        self.advance()

    def take_piece(self, piece: steering.BundlePiece) -> None:
        """Take in a piece of a bundle."""
        if self.memories.take_piece(piece):
            return
        coming = self._coming.get(piece.number)
        if coming is None or coming.file.whole:
            return  # a piece of a bundle that is not wanted any more
        try:
            coming.file.take(piece)
        except (BadBundle, OSError) as error:
            self._give_up(piece.number, coming, str(error))
            return
        if coming.file.whole:
            coming.until = None
            self.advance()
        else:
            self._request_piece(coming)

    def _request_piece(self, coming: _Coming) -> None:
        coming.until = Deadline(_PIECE_SECONDS, self._clock)
        self._tell(coming.file.wish)

    def _advance_coming(self, number: int, coming: _Coming) -> None:
        if coming.unpacking is None:
            if coming.until is not None and coming.until.passed:
                why = f"no piece of its bundle came for {_PIECE_SECONDS:g} s"
                self._give_up(number, coming, why)
            elif coming.file.whole and not self.memories.is_coming(coming.memory):
                home, bundle = self._moves.home_of(coming.member), self._bundle(number)
                if coming.held:
                    held = self._held_path(coming.member)
                    coming.unpacking = self._in_thread(carry, bundle, held)
                else:
                    coming.unpacking = self._in_thread(self._images.unpack, number, home)
            return
        if coming.restoring or not coming.unpacking.done():
            return
        try:
            image = coming.unpacking.result()
        except Exception as error:  # a bundle from another node may hold anything
            self._give_up(number, coming, str(error))
            return
        if image is None:
            del self._coming[number]
            self._bundle(number).unlink()
            self._moves.give_up_image(coming.member, came=True)
            return
        coming.restoring = True
        self._moves.take_in(coming.member, image)

    def _give_up(self, number: int, coming: _Coming, why: str) -> None:
        del self._coming[number]
        coming.file.close()
        self._bundle(number).unlink(missing_ok=True)
        self._tell(steering.BundleRejected(number, why))
        self._moves.give_up_image(coming.member)

    # -- both ----------------------------------------------------------------------------------

    def advance(self) -> None:
        """Advance all moves that are under way. Never waits."""
        self.memories.advance()
        for number, outgoing in tuple(self._outgoing.items()):
            if not outgoing.packed:
                self._advance_outgoing(number, outgoing)
        for number, coming in tuple(self._coming.items()):
            self._advance_coming(number, coming)
        for arrival in self._moves.arrivals():
            for number, coming in tuple(self._coming.items()):
                if coming.member == arrival.member:
                    del self._coming[number]
                    if arrival.lost:
                        self._tell(steering.BundleRejected(number, arrival.lost))
            if not arrival.lost:
                self._tell_arrived(arrival.member, arrival.seconds)
        fetched = [each for each in self._coming.values() if not each.file.whole]
        for coming in fetched[:_AT_ONCE]:
            if coming.until is None:
                self._request_piece(coming)

    def remove_bundle(self, member: Member) -> None:
        """Remove the bundle of a member that does not move out, or no longer."""
        for number, outgoing in tuple(self._outgoing.items()):
            if outgoing.member == member:
                del self._outgoing[number]
                bundle, packing = self._bundle(number), outgoing.packing
                if packing is None or packing.cancel():
                    bundle.unlink(missing_ok=True)
                else:

                    def unlink(_: object, path: Path = bundle) -> None:
                        path.unlink(missing_ok=True)

                    packing.add_done_callback(unlink)  # as soon as it is packed

    def forget(self, member: Member) -> None:
        """Remove the bundles of a member that is ended."""
        self.remove_bundle(member)
        for number, coming in tuple(self._coming.items()):
            if coming.member == member:
                del self._coming[number]
                coming.file.close()
                unpacking = coming.unpacking
                if unpacking is not None and not coming.restoring and not unpacking.cancel():
                    # Another process is about to replace the actor: drop its image.
                    wait((unpacking,), _UNPACK_SECONDS)
                    there = unpacking.done() and unpacking.exception() is None
                    if there and (image := unpacking.result()) is not None:
                        self._images.drop(image)
                self._bundle(number).unlink(missing_ok=True)

    def _bundle(self, number: int) -> Path:
        return self._images.bundle(number)

    def _in_thread(self, what: Callable[P, T], *about: P.args, **named: P.kwargs) -> Future[T]:
        work = self._thread.submit(what, *about, **named)
        work.add_done_callback(lambda _: self._ring())
        return work

    def close(self) -> None:
        """Release everything, after finishing the bundle that is being packed or unpacked."""
        self._thread.shutdown(cancel_futures=True)
        self.memories.close()
        for coming in self._coming.values():
            coming.file.close()
        for number in (*self._outgoing, *self._coming):
            self._bundle(number).unlink(missing_ok=True)
        self._outgoing, self._coming = {}, {}
