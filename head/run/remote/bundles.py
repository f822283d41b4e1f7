"""Images of actors that move to another node, on their way through the run process.

A parcel is fetched from the node that its actor leaves, kept in the run's folder, and fetched from
here by the node that the actor comes to. So neither has to wait for the other.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from artos.buffer.board import actor_member
from artos.clock import Clock
from artos.errors import BadParcel
from artos.protocol import wire
from artos.system.closing import Closing
from artos.system.private_folder import remove
from artos.transport.served_files import Incoming, cut

_log = logging.getLogger(__name__)
_AT_ONCE = 2
"""Parcels that one node makes at a time: each has one piece on its way."""
_TURN_SECONDS = 5.0
"""For others of its node to be made first: one that is told to stop has ten seconds in all."""
_LEAVE_SECONDS = 45.0
"""For a sign of a parcel that is made or fetched: a checkpoint may take 30 s."""
_ARRIVE_SECONDS = 120.0
"""For a sign of one at its target, which fetches one after the other, unpacks and restores."""

News = wire.Packed | wire.Bring | wire.Piece | wire.Unfit


@dataclass(slots=True)
class _Parcel:
    """An actor's parcel from the node ``source``, given up at ``until`` (clock).

    It is ``asked`` for once there are few others of that node. ``file`` is None until it is made,
    ``failed``: there will be none. ``sent`` is the node where the actor is started with it.
    """

    number: int
    actor: int
    source: str
    until: float
    asked: bool = False
    file: Incoming | None = None
    failed: bool = False
    sent: str = ""

    @property
    def whole(self) -> bool:
        return self.file is not None and self.file.whole

    @property
    def settled(self) -> bool:
        return self.failed or self.whole


class Parcels(Closing):
    """Decides what is fetched and when it is given up, and keeps the files in ``folder``.

    ``tell`` sends a message to a node. Why an actor begins anew is logged.
    """

    def __init__(
        self, folder: Path, tell: Callable[[str, wire.Message], None], clock: Clock
    ) -> None:
        self._folder, self._tell, self._clock = folder, tell, clock
        self._parcels: dict[int, _Parcel] = {}
        self._count = 0
        self.close()  # what a run process that died left

    # -- what actors that move want ------------------------------------------------------------

    def want(self, actor: int, node: str) -> None:
        """Have a parcel of the actor made on the node that it leaves, unless it is already."""
        if actor not in self._parcels:
            self._count += 1
            until = self._clock.now() + _TURN_SECONDS
            self._parcels[actor] = _Parcel(self._count, actor, node, until)
            self._ask(node)

    def _ask(self, node: str) -> None:
        """Have the next ones made on a node."""
        unsettled = [p for p in self._parcels.values() if p.source == node and not p.settled]
        for parcel in sorted(unsettled, key=lambda parcel: parcel.number)[:_AT_ONCE]:
            if not parcel.asked:
                parcel.asked, parcel.until = True, self._clock.now() + _LEAVE_SECONDS
                self._tell(node, wire.Pack(actor_member(parcel.actor), parcel.number))

    def is_settled(self, actor: int) -> bool:
        """Whether it is clear what becomes of the actor's parcel: it is here, or there is none."""
        return actor in self._parcels and self._parcels[actor].settled

    def stay(self, actor: int) -> None:
        """The actor does not leave its node (any more)."""
        if actor in self._parcels and not self._parcels[actor].sent:
            self.drop(actor)

    def leave(self, actor: int) -> None:
        """The actor leaves its node: only a parcel that is here goes with it."""
        parcel = self._parcels.get(actor)
        if parcel is not None and parcel.whole:
            parcel.sent, parcel.until = "", math.inf
        else:
            self.drop(actor)

    def send(self, actor: int, node: str) -> int:
        """The actor is started on a node, which may fetch its parcel: the number of that; 0: none.

        It is kept until it is dropped, as the actor may have to move on.
        """
        parcel = self._parcels.get(actor)
        if parcel is None or not parcel.whole:
            return 0
        parcel.sent, parcel.until = node, self._clock.now() + _ARRIVE_SECONDS
        return parcel.number

    def origin(self, actor: int) -> str:
        """The node where the actor's parcel comes from; "" if there is none on its way."""
        parcel = self._parcels.get(actor)
        return parcel.source if parcel is not None and parcel.whole else ""

    def drop(self, actor: int) -> None:
        """Nobody needs the actor's parcel any more."""
        parcel = self._parcels.pop(actor, None)
        if parcel is None:
            return
        if parcel.file is not None:
            parcel.file.close()
            parcel.file.path.unlink(missing_ok=True)
        self._ask(parcel.source)

    # -- what happens --------------------------------------------------------------------------

    def heard(self, node: str, message: News) -> int | None:
        """A site said something of a parcel; the actor whose parcel is settled by it.

        Raises:
            BadMessage: it wishes for what there cannot be.
        """
        parcel = next((p for p in self._parcels.values() if p.number == message.number), None)
        match message:
            case wire.Bring():
                self._answer(node, parcel, message)
            case wire.Unfit(why=why) if parcel is not None and parcel.sent == node:
                self._begins_anew(parcel, why)
            case wire.Packed() | wire.Piece() if parcel is not None and parcel.source == node:
                if parcel.asked and not parcel.settled:
                    self._fetch(parcel, message)
                    return parcel.actor if parcel.settled else None
            case _:
                pass  # of one that was given up
        return None

    def _answer(self, node: str, parcel: _Parcel | None, wish: wire.Bring) -> None:
        piece = wire.Piece(wish.number, wish.start)
        if parcel is not None and parcel.sent == node and parcel.file is not None:
            parcel.until = self._clock.now() + _ARRIVE_SECONDS
            try:
                piece = cut(parcel.file.path, wish)
            except OSError as error:
                self._begins_anew(parcel, str(error))
        self._tell(node, piece)

    def _fetch(self, parcel: _Parcel, news: wire.Packed | wire.Piece) -> None:
        if isinstance(news, wire.Packed) and news.why:
            self._fail(parcel, news.why)
            return
        try:
            if parcel.file is None:
                parcel.file = Incoming(parcel.number, self._folder / str(parcel.number))
            if isinstance(news, wire.Piece):
                parcel.file.take(news)
        except (BadParcel, OSError) as error:
            self._fail(parcel, str(error))
            return
        if parcel.whole:
            parcel.until = math.inf
            self._ask(parcel.source)
        else:
            parcel.until = self._clock.now() + _LEAVE_SECONDS
            self._tell(parcel.source, parcel.file.wish)

    def _fail(self, parcel: _Parcel, why: str) -> None:
        _log.warning("actor %d begins anew when it leaves %s: %s", parcel.actor, parcel.source, why)
        parcel.failed, parcel.until = True, math.inf
        if parcel.file is not None:
            parcel.file.close()
        self._ask(parcel.source)

    def _begins_anew(self, parcel: _Parcel, why: str) -> None:
        left = f"actor {parcel.actor}, which left {parcel.source}"
        _log.warning("%s, begins anew: %s", left, why)
        self.drop(parcel.actor)

    def give_up_late(self) -> list[int]:
        """Wait no longer for those of which there was no sign; the actors that need not wait."""
        now, given_up = self._clock.now(), []
        for parcel in tuple(self._parcels.values()):
            if now < parcel.until:
                continue
            given_up.append(parcel.actor)
            if parcel.sent:
                self._begins_anew(parcel, f"no sign of it for {_ARRIVE_SECONDS:g} s")
            elif parcel.asked:
                self._fail(parcel, f"no sign of its image for {_LEAVE_SECONDS:g} s")
            else:
                self._fail(parcel, f"others were before it for {_TURN_SECONDS:g} s")
        return given_up

    def lost(self, node: str) -> None:
        """The node is gone: what it has not handed over will not come."""
        for parcel in self._parcels.values():
            if parcel.source == node and not parcel.settled:
                parcel.failed, parcel.until = True, math.inf

    def close(self) -> None:
        """Remove everything. Twice is fine."""
        for parcel in self._parcels.values():
            if parcel.file is not None:
                parcel.file.close()
        self._parcels = {}
        remove(self._folder)

    def __repr__(self) -> str:
        return f"<Parcels {[*self._parcels]} in {self._folder}>"
