"""Images of actors that move to another node, on their way through the run process.

A bundle is fetched from the node that its actor leaves, kept in the run's folder, and fetched from
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
"""Bundles that one node makes at a time: each has one piece on its way."""
_TURN_SECONDS = 5.0
"""For others of its node to be made first: one that is told to stop has ten seconds in all."""
_LEAVE_SECONDS = 45.0
"""For a sign of a bundle that is made or fetched: a checkpoint may take 30 s."""
_ARRIVE_SECONDS = 120.0
"""For a sign of one at its target, which fetches one after the other, unpacks and restores."""

News = wire.Packed | wire.Bring | wire.Piece | wire.Unfit


@dataclass(slots=True)
class _Bundle:
    """An actor's bundle from the node ``source``, given up at ``until`` (clock).

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


class Bundles(Closing):
    """Decides what is fetched and when it is given up, and keeps the files in ``folder``.

    ``tell`` sends a message to a node. Why an actor begins anew is logged.
    """

    def __init__(
        self, folder: Path, tell: Callable[[str, wire.Message], None], clock: Clock
    ) -> None:
        self._folder, self._tell, self._clock = folder, tell, clock
        self._bundles: dict[int, _Bundle] = {}
        self._count = 0
        self.close()  # what a run process that died left

    # -- what actors that move want ------------------------------------------------------------

    def want(self, actor: int, node: str) -> None:
        """Have a bundle of the actor made on the node that it leaves, unless it is already."""
        if actor not in self._bundles:
            self._count += 1
            until = self._clock.now() + _TURN_SECONDS
            self._bundles[actor] = _Bundle(self._count, actor, node, until)
            self._ask(node)

    def _ask(self, node: str) -> None:
        """Have the next ones made on a node."""
        unsettled = [p for p in self._bundles.values() if p.source == node and not p.settled]
        for bundle in sorted(unsettled, key=lambda bundle: bundle.number)[:_AT_ONCE]:
            if not bundle.asked:
                bundle.asked, bundle.until = True, self._clock.now() + _LEAVE_SECONDS
                self._tell(node, wire.Pack(actor_member(bundle.actor), bundle.number))

    def is_settled(self, actor: int) -> bool:
        """Whether it is clear what becomes of the actor's bundle: it is here, or there is none."""
        return actor in self._bundles and self._bundles[actor].settled

    def stay(self, actor: int) -> None:
        """The actor does not leave its node (any more)."""
        if actor in self._bundles and not self._bundles[actor].sent:
            self.drop(actor)

    def leave(self, actor: int) -> None:
        """The actor leaves its node: only a bundle that is here goes with it."""
        bundle = self._bundles.get(actor)
        if bundle is not None and bundle.whole:
            bundle.sent, bundle.until = "", math.inf
        else:
            self.drop(actor)

    def send(self, actor: int, node: str) -> int:
        """The actor is started on a node, which may fetch its bundle: the number of that; 0: none.

        It is kept until it is dropped, as the actor may have to move on.
        """
        bundle = self._bundles.get(actor)
        if bundle is None or not bundle.whole:
            return 0
        bundle.sent, bundle.until = node, self._clock.now() + _ARRIVE_SECONDS
        return bundle.number

    def origin(self, actor: int) -> str:
        """The node where the actor's bundle comes from; "" if there is none on its way."""
        bundle = self._bundles.get(actor)
        return bundle.source if bundle is not None and bundle.whole else ""

    def drop(self, actor: int) -> None:
        """Nobody needs the actor's bundle any more."""
        bundle = self._bundles.pop(actor, None)
        if bundle is None:
            return
        if bundle.file is not None:
            bundle.file.close()
            bundle.file.path.unlink(missing_ok=True)
        self._ask(bundle.source)

    # -- what happens --------------------------------------------------------------------------

    def heard(self, node: str, message: News) -> int | None:
        """A site said something of a bundle; the actor whose bundle is settled by it.

        Raises:
            BadMessage: it wishes for what there cannot be.
        """
        bundle = next((p for p in self._bundles.values() if p.number == message.number), None)
        match message:
            case wire.Bring():
                self._answer(node, bundle, message)
            case wire.Unfit(why=why) if bundle is not None and bundle.sent == node:
                self._begins_anew(bundle, why)
            case wire.Packed() | wire.Piece() if bundle is not None and bundle.source == node:
                if bundle.asked and not bundle.settled:
                    self._fetch(bundle, message)
                    return bundle.actor if bundle.settled else None
            case _:
                pass  # of one that was given up
        return None

    def _answer(self, node: str, bundle: _Bundle | None, wish: wire.Bring) -> None:
        piece = wire.Piece(wish.number, wish.start)
        if bundle is not None and bundle.sent == node and bundle.file is not None:
            bundle.until = self._clock.now() + _ARRIVE_SECONDS
            try:
                piece = cut(bundle.file.path, wish)
            except OSError as error:
                self._begins_anew(bundle, str(error))
        self._tell(node, piece)

    def _fetch(self, bundle: _Bundle, news: wire.Packed | wire.Piece) -> None:
        if isinstance(news, wire.Packed) and news.why:
            self._fail(bundle, news.why)
            return
        try:
            if bundle.file is None:
                bundle.file = Incoming(bundle.number, self._folder / str(bundle.number))
            if isinstance(news, wire.Piece):
                bundle.file.take(news)
        except (BadParcel, OSError) as error:
            self._fail(bundle, str(error))
            return
        if bundle.whole:
            bundle.until = math.inf
            self._ask(bundle.source)
        else:
            bundle.until = self._clock.now() + _LEAVE_SECONDS
            self._tell(bundle.source, bundle.file.wish)

    def _fail(self, bundle: _Bundle, why: str) -> None:
        _log.warning("actor %d begins anew when it leaves %s: %s", bundle.actor, bundle.source, why)
        bundle.failed, bundle.until = True, math.inf
        if bundle.file is not None:
            bundle.file.close()
        self._ask(bundle.source)

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
            if bundle.sent:
                self._begins_anew(bundle, f"no sign of it for {_ARRIVE_SECONDS:g} s")
            elif bundle.asked:
                self._fail(bundle, f"no sign of its image for {_LEAVE_SECONDS:g} s")
            else:
                self._fail(bundle, f"others were before it for {_TURN_SECONDS:g} s")
        return given_up

    def lost(self, node: str) -> None:
        """The node is gone: what it has not handed over will not come."""
        for bundle in self._bundles.values():
            if bundle.source == node and not bundle.settled:
                bundle.failed, bundle.until = True, math.inf

    def close(self) -> None:
        """Remove everything. Twice is fine."""
        for bundle in self._bundles.values():
            if bundle.file is not None:
                bundle.file.close()
        self._bundles = {}
        remove(self._folder)

    def __repr__(self) -> str:
        return f"<Bundles {[*self._bundles]} in {self._folder}>"
