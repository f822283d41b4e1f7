"""Bundles of actors that move to another node, on their way through the run process.

The run process fetches a bundle from the node that the actor leaves and keeps it in the run's
folder; the actor's next node fetches it from there. So neither node has to wait for the other.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from artos.clock import Clock
from artos.errors import BadBundle
from artos.protocol import steering
from artos.protocol.message import Message
from artos.specs.members import ACTORS, Member
from artos.system.closing import Closing
from artos.system.private_folder import remove
from artos.system.transitions import after
from artos.transport.served_files import Incoming, cut

_log = logging.getLogger(__name__)
_AT_ONCE = 2
"""Bundles that one node makes at a time: each has one piece on its way."""

BundleMessage = (
    steering.Packed | steering.ReadPiece | steering.BundlePiece | steering.BundleRejected
)


class State(StrEnum):
    """The state of a bundle. From ``HERE`` on it is settled: its actor need not wait for it."""

    QUEUED = "queued"
    """The node makes bundles of other actors first."""
    PACKING = "packing"
    """The node was told to make the bundle."""
    FETCHING = "fetching"
    """The bundle is made and fetched, piece by piece."""
    HERE = "here"
    """The whole bundle is in the run's folder; its actor has no place."""
    OFFERED = "offered"
    """The actor is started on a node, which may fetch the bundle."""
    FAILED = "failed"
    """There will be no bundle."""


class Event(StrEnum):
    """What can happen to a bundle."""

    PACK = "pack"
    PACKED = "packed"
    TAKE = "take"
    COMPLETE = "complete"
    FAIL = "fail"
    OFFER = "offer"
    GIVE = "give"
    WITHDRAW = "withdraw"


TABLE: dict[tuple[State, Event], State] = {
    (State.QUEUED, Event.PACK): State.PACKING,
    (State.QUEUED, Event.FAIL): State.FAILED,
    (State.PACKING, Event.PACKED): State.FETCHING,
    (State.PACKING, Event.FAIL): State.FAILED,
    (State.FETCHING, Event.TAKE): State.FETCHING,
    (State.FETCHING, Event.COMPLETE): State.HERE,
    (State.FETCHING, Event.FAIL): State.FAILED,
    (State.HERE, Event.OFFER): State.OFFERED,
    (State.HERE, Event.WITHDRAW): State.HERE,
    (State.OFFERED, Event.OFFER): State.OFFERED,
    (State.OFFERED, Event.GIVE): State.OFFERED,
    (State.OFFERED, Event.WITHDRAW): State.HERE,
}
_TIMEOUTS: dict[State, tuple[float, str]] = {
    # A worker that is told to stop has ten seconds in all.
    State.QUEUED: (5.0, "bundles of other actors were made first"),
    # A checkpoint may take 30 s.
    State.PACKING: (45.0, "no sign of its image"),
    State.FETCHING: (45.0, "no sign of its image"),
    # The target fetches bundles one after the other, unpacks and restores.
    State.OFFERED: (120.0, "no sign of it"),
}
"""How many seconds a bundle may stay in a state, and why it is given up then."""


@dataclass(slots=True)
class _Bundle:
    """An actor's bundle."""

    number: int
    actor: int
    source: str
    """The node that makes the bundle."""
    deadline: float = math.inf
    """When the bundle is given up."""
    state: State = State.QUEUED
    file: Incoming | None = None
    """The pieces fetched so far."""
    target: str = ""
    """The node that may fetch the bundle."""
    image: bool = True
    """Whether an image would fit where the actor goes."""
    held: bool = False
    """Whether it is what the actor held, and no image."""
    spared: Callable[[], str] = str
    """The name of the memory that need not be in it."""
    without: str = ""
    """The memory that need not be in it, once it is asked for; once it is made, that is not."""

    @property
    def is_whole(self) -> bool:
        return self.state in (State.HERE, State.OFFERED)

    @property
    def is_settled(self) -> bool:
        return self.is_whole or self.state is State.FAILED


class Bundles(Closing):
    """Decides which bundles are fetched and when they are given up; keeps them in ``folder``.

    ``tell`` sends a message to a node; ``numbers`` are for the bundles. The reason why an actor
    begins anew is logged.
    """

    def __init__(
        self,
        folder: Path,
        tell: Callable[[str, Message], None],
        clock: Clock,
        numbers: Iterator[int],
    ) -> None:
        self._folder, self._tell, self._clock, self._numbers = folder, tell, clock, numbers
        self._bundles: dict[int, _Bundle] = {}
        self.close()  # a run process that died may have left bundles

    def _move(self, bundle: _Bundle, event: Event) -> None:
        bundle.state = after(TABLE, bundle.state, event, "a bundle")
        self._set_deadline(bundle)

    def _set_deadline(self, bundle: _Bundle) -> None:
        seconds, _ = _TIMEOUTS.get(bundle.state, (math.inf, ""))
        bundle.deadline = self._clock.now() + seconds

    # -- actors that move ----------------------------------------------------------------------

    def want(
        self, actor: int, node: str, *, image: bool = True, spared: Callable[[], str] = str
    ) -> None:
        """Have a bundle of the actor made on the node that it leaves, unless there is one.

        Of its ``image``, if that would fit where it goes and can be made, without the memory whose
        name ``spared`` returns by then; else of what it holds.
        """
        if actor not in self._bundles:
            number = next(self._numbers)
            self._bundles[actor] = bundle = _Bundle(number, actor, node, image=image, spared=spared)
            self._set_deadline(bundle)
            self._pack_next(node)

    def _pack_next(self, node: str) -> None:
        """Have the node make its next bundles."""
        unsettled = [b for b in self._bundles.values() if b.source == node and not b.is_settled]
        for bundle in sorted(unsettled, key=lambda bundle: bundle.number)[:_AT_ONCE]:
            if bundle.state is State.QUEUED:
                self._move(bundle, Event.PACK)
                who, bundle.without = Member(ACTORS, bundle.actor), bundle.spared()
                self._tell(node, steering.Pack(who, bundle.number, bundle.image, bundle.without))

    def is_settled(self, actor: int) -> bool:
        """Whether the actor's bundle is here or has failed."""
        return actor in self._bundles and self._bundles[actor].is_settled

    def stay(self, actor: int) -> None:
        """The actor does not leave its node (any more)."""
        bundle = self._bundles.get(actor)
        if bundle is not None and bundle.state is not State.OFFERED:
            self.drop(actor)

    def leave(self, actor: int) -> None:
        """The actor leaves its node; a bundle that is not here yet is dropped."""
        bundle = self._bundles.get(actor)
        if bundle is not None and bundle.is_whole:
            self._move(bundle, Event.WITHDRAW)
        else:
            self.drop(actor)

    def send(self, actor: int, node: str) -> int:
        """The actor is started on a node, which may fetch its bundle; returns its number, 0: none.

        The bundle is kept until ``drop``, as the actor may have to move on.
        """
        bundle = self._bundles.get(actor)
        if bundle is None or not bundle.is_whole:
            return 0
        bundle.target = node
        self._move(bundle, Event.OFFER)
        return bundle.number

    def held(self, actor: int) -> bool:
        """Whether the actor's bundle is what it held, and no image."""
        return actor in self._bundles and self._bundles[actor].held

    def without(self, actor: int) -> str:
        """The name of the memory that the actor's bundle is without, "": none."""
        return self._bundles[actor].without if actor in self._bundles else ""

    @property
    def all_without(self) -> set[str]:
        """The names of memory that any bundle is without."""
        return {bundle.without for bundle in self._bundles.values()} - {""}

    def origin(self, actor: int) -> str:
        """The node that the actor's bundle was made on; "" if no bundle is here."""
        bundle = self._bundles.get(actor)
        return bundle.source if bundle is not None and bundle.is_whole else ""

    def drop(self, actor: int) -> None:
        """Forget the actor's bundle and remove its file."""
        bundle = self._bundles.pop(actor, None)
        if bundle is None:
            return
        if bundle.file is not None:
            bundle.file.close()
            bundle.file.path.unlink(missing_ok=True)
        self._pack_next(bundle.source)

    # -- messages of executors -----------------------------------------------------------------

    def heard(self, node: str, message: BundleMessage) -> int | None:
        """An executor's message about a bundle; returns the actor whose bundle is settled by it.

        Raises:
            BadMessage: the message asks for a piece that cannot exist.
        """
        bundle = next((b for b in self._bundles.values() if b.number == message.number), None)
        if isinstance(message, steering.ReadPiece):
            self._give(node, bundle, message)
        elif bundle is None:
            pass  # the bundle was given up
        elif isinstance(message, steering.BundleRejected):
            if bundle.state is State.OFFERED and bundle.target == node:
                self._begins_anew(bundle, message.why)
        elif bundle.source == node and bundle.state in (State.PACKING, State.FETCHING):
            self._fetch(bundle, message)
            return bundle.actor if bundle.is_settled else None
        return None

    def _give(self, node: str, bundle: _Bundle | None, request: steering.ReadPiece) -> None:
        piece = steering.BundlePiece(request.number, request.start)
        offered = bundle is not None and bundle.state is State.OFFERED and bundle.target == node
        if bundle is not None and bundle.file is not None and offered:
            self._move(bundle, Event.GIVE)
            try:
                piece = cut(bundle.file.path, request)
            except OSError as error:
                self._begins_anew(bundle, str(error))
        self._tell(node, piece)

    def _fetch(self, bundle: _Bundle, message: steering.Packed | steering.BundlePiece) -> None:
        if isinstance(message, steering.Packed) and message.why:
            self._fail(bundle, message.why)
            return
        try:
            if bundle.file is None:
                bundle.file = Incoming(bundle.number, self._folder / str(bundle.number))
                self._move(bundle, Event.PACKED)
                if isinstance(message, steering.Packed):
                    bundle.held, bundle.without = message.held, message.memory
            if isinstance(message, steering.BundlePiece):
                bundle.file.take(message)
                self._move(bundle, Event.TAKE)
        except (BadBundle, OSError) as error:
            self._fail(bundle, str(error))
            return
        if bundle.file.whole:
            self._move(bundle, Event.COMPLETE)
            self._pack_next(bundle.source)
        else:
            self._tell(bundle.source, bundle.file.wish)

    def _fail(self, bundle: _Bundle, why: str) -> None:
        _log.warning("actor %d begins anew when it leaves %s: %s", bundle.actor, bundle.source, why)
        self._move(bundle, Event.FAIL)
        if bundle.file is not None:
            bundle.file.close()
        self._pack_next(bundle.source)

    def _begins_anew(self, bundle: _Bundle, why: str) -> None:
        left = f"actor {bundle.actor}, which left {bundle.source}"
        _log.warning("%s, begins anew: %s", left, why)
        self.drop(bundle.actor)

    def give_up_late(self) -> list[int]:
        """Give up the bundles past their deadline; returns their actors, which need not wait."""
        now, given_up = self._clock.now(), []
        for bundle in tuple(self._bundles.values()):
            if now < bundle.deadline:
                continue
            given_up.append(bundle.actor)
            seconds, why = _TIMEOUTS[bundle.state]
            give_up = self._begins_anew if bundle.state is State.OFFERED else self._fail
            give_up(bundle, f"{why} for {seconds:g} s")
        return given_up

    def sign_of(self, node: str) -> None:
        """The node fetches what bundles that were offered to it need."""
        for bundle in self._bundles.values():
            if bundle.state is State.OFFERED and bundle.target == node:
                self._set_deadline(bundle)

    def lost(self, node: str) -> None:
        """The node is gone: its bundles that are not here yet have failed."""
        for bundle in self._bundles.values():
            if bundle.source == node and not bundle.is_settled:
                self._move(bundle, Event.FAIL)

    def close(self) -> None:
        """Remove all bundles. May be called twice."""
        for bundle in self._bundles.values():
            if bundle.file is not None:
                bundle.file.close()
        self._bundles = {}
        remove(self._folder)

    def __repr__(self) -> str:
        return f"<Bundles {[*self._bundles]} in {self._folder}>"
