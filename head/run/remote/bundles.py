"""Images of actors that move to another node, on their way through the run process.

A bundle is fetched from the node that its actor leaves, kept in the run's folder, and fetched from
here by the node that the actor comes to. So neither has to wait for the other.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from artos.buffer.mailbox import actor_member
from artos.clock import Clock
from artos.errors import BadBundle
from artos.protocol import steering
from artos.protocol.message import Message
from artos.system.closing import Closing
from artos.system.private_folder import remove
from artos.transitions import after
from artos.transport.served_files import Incoming, cut

_log = logging.getLogger(__name__)
_AT_ONCE = 2
"""Bundles that one node makes at a time: each has one piece on its way."""

News = steering.Packed | steering.ReadPiece | steering.BundlePiece | steering.BundleRejected


class State(StrEnum):
    """How far a bundle is. It is settled from ``HERE`` on: its actor need not wait for it."""

    QUEUED = "queued"
    """Its node makes those of others first."""
    PACKING = "packing"
    """Its node was told to make it."""
    FETCHING = "fetching"
    """It is made, and comes here piece by piece."""
    HERE = "here"
    """All of it is here; its actor has no place."""
    OFFERED = "offered"
    """Its actor is started on a node, which may fetch it."""
    FAILED = "failed"
    """There will be none."""


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
_PATIENCE: dict[State, tuple[float, str]] = {
    # One that is told to stop has ten seconds in all.
    State.QUEUED: (5.0, "others were before it"),
    # A checkpoint may take 30 s.
    State.PACKING: (45.0, "no sign of its image"),
    State.FETCHING: (45.0, "no sign of its image"),
    # Its target fetches one after the other, unpacks and restores.
    State.OFFERED: (120.0, "no sign of it"),
}
"""For so many seconds a bundle may stay as it is, and why it is given up then."""


@dataclass(slots=True)
class _Bundle:
    """An actor's bundle from the node ``source``, given up at ``until`` (clock).

    ``file`` is what came of it so far; ``target`` the node that it is offered to.
    """

    number: int
    actor: int
    source: str
    until: float = math.inf
    state: State = State.QUEUED
    file: Incoming | None = None
    target: str = ""

    @property
    def is_whole(self) -> bool:
        return self.state in (State.HERE, State.OFFERED)

    @property
    def is_settled(self) -> bool:
        return self.is_whole or self.state is State.FAILED


class Bundles(Closing):
    """Decides what is fetched and when it is given up, and keeps the files in ``folder``.

    ``tell`` sends a message to a node. Why an actor begins anew is logged.
    """

    def __init__(self, folder: Path, tell: Callable[[str, Message], None], clock: Clock) -> None:
        self._folder, self._tell, self._clock = folder, tell, clock
        self._bundles: dict[int, _Bundle] = {}
        self._count = 0
        self.close()  # what a run process that died left

    def _move(self, bundle: _Bundle, event: Event) -> None:
        bundle.state = after(TABLE, bundle.state, event, "a bundle")
        self._be_patient(bundle)

    def _be_patient(self, bundle: _Bundle) -> None:
        seconds, _ = _PATIENCE.get(bundle.state, (math.inf, ""))
        bundle.until = self._clock.now() + seconds

    # -- what actors that move want ------------------------------------------------------------

    def want(self, actor: int, node: str) -> None:
        """Have a bundle of the actor made on the node that it leaves, unless it is already."""
        if actor not in self._bundles:
            self._count += 1
            self._bundles[actor] = bundle = _Bundle(self._count, actor, node)
            self._be_patient(bundle)
            self._pack_next(node)

    def _pack_next(self, node: str) -> None:
        """Have the next ones made on a node."""
        unsettled = [b for b in self._bundles.values() if b.source == node and not b.is_settled]
        for bundle in sorted(unsettled, key=lambda bundle: bundle.number)[:_AT_ONCE]:
            if bundle.state is State.QUEUED:
                self._move(bundle, Event.PACK)
                self._tell(node, steering.Pack(actor_member(bundle.actor), bundle.number))

    def is_settled(self, actor: int) -> bool:
        """Whether it is clear what becomes of the actor's bundle: it is here, or there is none."""
        return actor in self._bundles and self._bundles[actor].is_settled

    def stay(self, actor: int) -> None:
        """The actor does not leave its node (any more)."""
        bundle = self._bundles.get(actor)
        if bundle is not None and bundle.state is not State.OFFERED:
            self.drop(actor)

    def leave(self, actor: int) -> None:
        """The actor leaves its node: only a bundle that is here goes with it."""
        bundle = self._bundles.get(actor)
        if bundle is not None and bundle.is_whole:
            self._move(bundle, Event.WITHDRAW)
        else:
            self.drop(actor)

    def send(self, actor: int, node: str) -> int:
        """The actor is started on a node, which may fetch its bundle: the number of that; 0: none.

        It is kept until it is dropped, as the actor may have to move on.
        """
        bundle = self._bundles.get(actor)
        if bundle is None or not bundle.is_whole:
            return 0
        bundle.target = node
        self._move(bundle, Event.OFFER)
        return bundle.number

    def origin(self, actor: int) -> str:
        """The node where the actor's bundle comes from; "" if there is none on its way."""
        bundle = self._bundles.get(actor)
        return bundle.source if bundle is not None and bundle.is_whole else ""

    def drop(self, actor: int) -> None:
        """Nobody needs the actor's bundle any more."""
        bundle = self._bundles.pop(actor, None)
        if bundle is None:
            return
        if bundle.file is not None:
            bundle.file.close()
            bundle.file.path.unlink(missing_ok=True)
        self._pack_next(bundle.source)

    # -- what happens --------------------------------------------------------------------------

    def heard(self, node: str, message: News) -> int | None:
        """An executor said something of a bundle; the actor whose bundle is settled by it.

        Raises:
            BadMessage: it wishes for what there cannot be.
        """
        bundle = next((b for b in self._bundles.values() if b.number == message.number), None)
        if isinstance(message, steering.ReadPiece):
            self._give(node, bundle, message)
        elif bundle is None:
            pass  # it was given up
        elif isinstance(message, steering.BundleRejected):
            if bundle.state is State.OFFERED and bundle.target == node:
                self._begins_anew(bundle, message.why)
        elif bundle.source == node and bundle.state in (State.PACKING, State.FETCHING):
            self._fetch(bundle, message)
            return bundle.actor if bundle.is_settled else None
        return None

    def _give(self, node: str, bundle: _Bundle | None, wish: steering.ReadPiece) -> None:
        piece = steering.BundlePiece(wish.number, wish.start)
        offered = bundle is not None and bundle.state is State.OFFERED and bundle.target == node
        if bundle is not None and bundle.file is not None and offered:
            self._move(bundle, Event.GIVE)
            try:
                piece = cut(bundle.file.path, wish)
            except OSError as error:
                self._begins_anew(bundle, str(error))
        self._tell(node, piece)

    def _fetch(self, bundle: _Bundle, news: steering.Packed | steering.BundlePiece) -> None:
        if isinstance(news, steering.Packed) and news.why:
            self._fail(bundle, news.why)
            return
        try:
            file = self._taken(bundle, news)
        except (BadBundle, OSError) as error:
            self._fail(bundle, str(error))
            return
        if file.whole:
            self._move(bundle, Event.COMPLETE)
            self._pack_next(bundle.source)
        else:
            self._tell(bundle.source, file.wish)

    def _taken(self, bundle: _Bundle, news: steering.Packed | steering.BundlePiece) -> Incoming:
        if bundle.file is None:
            bundle.file = Incoming(bundle.number, self._folder / str(bundle.number))
            self._move(bundle, Event.PACKED)
        if isinstance(news, steering.BundlePiece):
            bundle.file.take(news)
            self._move(bundle, Event.TAKE)
        return bundle.file

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
        """Wait no longer for those of which there was no sign; the actors that need not wait."""
        now, given_up = self._clock.now(), []
        for bundle in tuple(self._bundles.values()):
            if now < bundle.until:
                continue
            given_up.append(bundle.actor)
            seconds, why = _PATIENCE[bundle.state]
            give_up = self._begins_anew if bundle.state is State.OFFERED else self._fail
            give_up(bundle, f"{why} for {seconds:g} s")
        return given_up

    def lost(self, node: str) -> None:
        """The node is gone: what it has not handed over will not come."""
        for bundle in self._bundles.values():
            if bundle.source == node and not bundle.is_settled:
                self._move(bundle, Event.FAIL)

    def close(self) -> None:
        """Remove everything. Twice is fine."""
        for bundle in self._bundles.values():
            if bundle.file is not None:
                bundle.file.close()
        self._bundles = {}
        remove(self._folder)

    def __repr__(self) -> str:
        return f"<Bundles {[*self._bundles]} in {self._folder}>"
