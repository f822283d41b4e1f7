"""Ordered, exactly-once messages with every peer of one socket, by a thread that never blocks."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from artos.clock import Clock, SystemClock
from artos.errors import DeadlineExceeded
from artos.faults import Faults
from artos.protocol import codec
from artos.protocol.message import Message
from artos.system.closing import Closing
from artos.transport.authorizer import Authorizer
from artos.transport.endpoints import HEAD, Calling, Line, Listening
from artos.transport.handshakes import LinkFault
from artos.transport.keys import Keys
from artos.transport.peers import Peers

_ROUND = 0.5  # seconds from one look at every peer to the next
_BATCH = 1_000  # messages read before anything is answered
_PATIENCE = 10.0  # seconds for the thread to end; it waits for nothing but ``ring``


class Messenger(Closing):
    """Messages to and from peers by name; made by ``serve`` or ``connect``.

    A message reaches the peer's ``take`` once and in order, however often the link breaks, as long
    as both ends live and neither forgets the other. Otherwise the remaining end takes
    ``Restarted``, and messages under way are lost. ``faults`` counts failures of single peers,
    whose channels begin anew.
    """

    def __init__(
        self, line: Line, peers: Peers, ring: Callable[[], None], clock: Clock | None = None
    ) -> None:
        self._line, self._peers, self._ring = line, peers, ring
        self._clock = clock or SystemClock()
        self._change = threading.Condition()
        self._waiting: set[str] = set()  # peers to speak to at the next turn
        self._next_round = float("-inf")
        self._over = self._ended = False
        self._fault: BaseException | None = None
        self.faults = Faults()
        self._always = frozenset(peers.names)
        self.endpoint = line.endpoint
        self._thread = threading.Thread(target=self._run, name=f"post {self.endpoint}", daemon=True)
        self._thread.start()

    @classmethod
    def serve(
        cls, endpoint: str, keys: Keys | None, ring: Callable[[], None], clock: Clock | None = None
    ) -> Messenger:
        """Listen (``tcp://IP:*`` for any port); the thread calls ``ring`` when messages have come.

        Raises:
            Refused: see ``sockets.serve``.
        """
        authorizer = Authorizer(keys.register if keys else None)
        return cls(Listening(endpoint, keys), Peers(time.time_ns, authorizer), ring, clock)

    @classmethod
    def connect(
        cls, endpoint: str, keys: Keys | None, me: str, ring: Callable[[], None],
        clock: Clock | None = None,
    ) -> Messenger:  # fmt: skip
        """Call a serving post, which knows us as ``me`` and is to us the peer ``"head"``.

        Raises:
            Refused: see ``sockets.connect``.
        """
        peers = Peers(time.time_ns, forget_after=math.inf)
        peers.meet(HEAD, (clock or SystemClock()).now())
        return cls(Calling(endpoint, keys, me), peers, ring, clock)

    @property
    def malformed(self) -> int:
        """Malformed messages that came in; each was answered with a ``Refusal``."""
        return self._peers.malformed

    @property
    def link_fault(self) -> LinkFault | None:
        """Why a calling post is not connected, if that is known."""
        return self._line.link_fault

    def send(self, peer: str, message: Message) -> None:
        """Queue a message, also for a peer that is not there yet. Never blocks.

        Raises:
            MailboxFull: the peer has taken nothing for too long; ``forget`` it.
        """
        with self._change:
            self._check()
            self._peers.put(peer, message, self._clock.now())
            self._waiting.add(peer)
            self._wake()

    def take(self) -> list[tuple[str, Message]]:
        """Messages since the last call, with the peers' names. Never blocks."""
        with self._change:
            came = self._peers.take()
            if not came:
                self._check()
            return came

    def silent(self) -> dict[str, float]:
        """Seconds since each peer was heard (beats count), or since it was first written to."""
        with self._change:
            return self._peers.silent(self._clock.now())

    def forget(self, peer: str) -> None:
        """Drop what is queued for a peer; if it is heard again, it takes ``Restarted``."""
        with self._change:
            self._begin_anew(peer)

    def close(self, seconds: float = 2.0) -> None:
        """Wait at most so long until all peers have taken everything; then end."""
        with self._change:
            self._change.wait_for(lambda: self._over or self._peers.idle, seconds)
            self._over = True
            self._wake()
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            raise DeadlineExceeded(f"the thread of {self._thread.name} to end", _PATIENCE)

    def _run(self) -> None:
        try:
            while not self._over:
                self._turn()
        except BaseException as error:
            self._fault = error
        with self._change:
            self._over = self._ended = True
            self._line.close()
            self._change.notify_all()
        if self._fault:
            with suppress(Exception):
                self._ring()

    def _turn(self) -> None:
        until_round, known = max(0.0, self._next_round - self._clock.now()), self._line.link_fault
        self._line.wait(until_round, bool(self._waiting))
        with self._change:
            now = self._clock.now()
            self._peers.refresh()
            came = self._listen(now)
            self._speak(now)
            self._change.notify_all()
        if came or self._line.link_fault is not known:
            self._ring()

    def _listen(self, now: float) -> bool:
        before = self._peers.untaken
        for sender, frames in self._line.heard(_BATCH):
            try:
                if answer := self._peers.hear(sender, frames, now):
                    self._line.send(sender.route, codec.encode(answer))
            except Exception as error:
                self._failed(sender.name, error)
            self._waiting.add(sender.name)
        return self._peers.untaken > before

    def _speak(self, now: float) -> None:
        if now >= self._next_round:
            self._look_around(now)
        unsaid = {name for name in self._waiting if not self._spoke_to(name, now)}
        for route in self._peers.cut():
            self._line.hang_up(route)
        # A listening line is not told when a peer comes back; the next round tries again.
        self._waiting = unsaid.intersection(self._always)

    def _spoke_to(self, name: str, now: float) -> bool:
        """Whether a peer has been sent all that is due."""
        try:
            return self._peers.speak(name, now, self._line.send)
        except Exception as error:
            self._failed(name, error)
            return True

    def _failed(self, name: str, error: Exception) -> None:
        """A failure with one peer: only that peer's channel begins anew."""
        self.faults.add(f"the channel to {name!r}", error)
        self._begin_anew(name)

    def _begin_anew(self, name: str) -> None:
        """Drop what is queued for a peer, and what is known of it."""
        self._peers.forget(name)
        if name in self._always:
            self._peers.meet(name, self._clock.now())

    def _look_around(self, now: float) -> None:
        self._next_round = now + _ROUND
        silent = min(self._peers.silent(now).values(), default=0.0)
        self._line.tend(silent, self._peers.usurped(HEAD))
        self._peers.forget_silent(now)
        self._waiting.update(self._peers.names)

    def _wake(self) -> None:
        if not self._ended:
            self._line.wake()

    def _check(self) -> None:
        if self._fault:
            raise self._fault
