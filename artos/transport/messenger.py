"""Ordered, exactly-once messages with every peer of one socket, by a thread that never blocks."""

from __future__ import annotations

import math
import os
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import zmq

from artos.clock import Clock, SystemClock
from artos.errors import DeadlineExceeded, Refused
from artos.protocol.message import Message
from artos.system.account import SystemAccount
from artos.system.closing import Closing
from artos.system.faults import Faults
from artos.transport import sockets
from artos.transport.address import endpoint_of
from artos.transport.authorizer import Authorizer
from artos.transport.channel import PIECE, framed
from artos.transport.doorkeeper import Doorkeeper
from artos.transport.handshakes import REPORTS, Handshakes, LinkFault
from artos.transport.keys import Keys
from artos.transport.monitor import SocketMonitor
from artos.transport.peers import FrameSource, Peers

HEAD = "head"
"""The caller's name for the other end."""

_LARGEST = 2 * PIECE  # bytes of a frame: a piece, its envelope and the overhead of encryption
_LINGER = 200  # ms for writing queued frames on closing
_RENEW = 5.0  # seconds of silence after which a new connection is tried

Heard = tuple[FrameSource, list[bytes]]
"""A peer and its frames."""
_ROUND = 0.5  # seconds from one look at every peer to the next
_BATCH = 1_000  # messages read before any are answered
_JOIN_SECONDS = 10.0  # for the thread to end; it never waits for anything but ``ring``


class Door(NamedTuple):
    """One more place where a serving socket listens: in the folder of a system account."""

    endpoint: str
    account: SystemAccount


class Endpoint(Closing):
    """A socket that one thread uses; other threads can end its wait (``wake``)."""

    def __init__(self) -> None:
        self._context: sockets.Context = zmq.Context()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            self._socket = self._open()
        except BaseException:
            self.close()
            raise
        self.endpoint = sockets.bound(self._socket)

    def wake(self) -> None:
        """End the wait; may be called from any thread."""
        os.eventfd_write(self._wake, 1)

    def wait(self, seconds: float, to_send: bool) -> None:
        """Wait for a frame to read, for room to send (if wanted), a ``wake``, or the timeout."""
        poller = zmq.Poller()
        poller.register(self._wake, zmq.POLLIN)
        self._await(poller, int(seconds * 1000) + 1, to_send)
        with suppress(BlockingIOError):
            os.eventfd_read(self._wake)

    def heard(self, most: int) -> Iterator[Heard]:
        """Messages that have come in, ``most`` at most."""
        for _ in range(0 if self._socket.closed else most):
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            yield self._opened(frames)

    @property
    def link_fault(self) -> LinkFault | None:
        """Why the other end cannot be reached, if that is known."""
        return None

    @abstractmethod
    def send(self, route: bytes, message: bytes) -> bool:
        """Send now or not at all; returns whether it was sent."""

    def hang_up(self, route: bytes) -> None:
        """Close the connection of this route, if the socket can do that."""

    def has_ended(self, route: bytes) -> bool:
        """Whether the peer at this route has lost its connection, if the socket can tell."""
        return False

    @abstractmethod
    def maintain(self, silent: float, usurped: bool) -> None:
        """Keep the link up, given the seconds of silence and whether our name is taken."""

    def close(self) -> None:
        """Write queued frames, for a moment at most, and release everything."""
        self._context.destroy(_LINGER)
        os.close(self._wake)

    @abstractmethod
    def _open(self) -> sockets.Socket:
        """Make the socket."""

    @abstractmethod
    def _await(self, poller: zmq.Poller, milliseconds: int, to_send: bool) -> None:
        """Wait for the socket and for what ``poller`` has registered."""

    @abstractmethod
    def _opened(self, frames: list[zmq.Frame]) -> Heard:
        """The sender and its frames."""


class ServingEndpoint(Endpoint):
    """Serves any number of peers, each reached by its own route; at ``doors``, too."""

    def __init__(self, endpoint: str, keys: Keys | None, doors: Sequence[Door] = ()) -> None:
        self._endpoint, self._keys, self._doors = endpoint, keys, doors
        super().__init__()

    def send(self, route: bytes, message: bytes) -> bool:
        """Send to the peer of this route; False also if it is not connected."""
        return sockets.push(self._socket, [route, message])

    def maintain(self, silent: float, usurped: bool) -> None:
        """Nothing to do: the calling end renews the connection."""

    def _open(self) -> sockets.Socket:
        self._zap = sockets.ZapHandler(self._context, self._keys) if self._keys else None
        socket = sockets.serve(self._context, self._endpoint, self._keys, _LARGEST)
        self._doorkeeper = Doorkeeper(socket, _LARGEST) if self._keys else None
        for door in self._doors:
            with door.account.acting():  # the socket is a file of the account
                sockets.listen(socket, door.endpoint)
        return socket

    def hang_up(self, route: bytes) -> None:
        """Close the connection of this route."""
        if self._doorkeeper:
            self._doorkeeper.hang_up(route)

    def has_ended(self, route: bytes) -> bool:
        """Whether the connection of this route was closed, and there is no new one."""
        return self._doorkeeper is not None and self._doorkeeper.has_ended(route)

    def _await(self, poller: zmq.Poller, milliseconds: int, to_send: bool) -> None:
        poller.register(self._socket, zmq.POLLIN)
        if self._zap is None or self._doorkeeper is None:
            poller.poll(milliseconds)
            return
        for each in (self._zap, self._doorkeeper):
            poller.register(each.socket, zmq.POLLIN)
        ready = dict(poller.poll(milliseconds))
        if self._doorkeeper.socket in ready:
            self._doorkeeper.read_reports()
        if self._zap.socket in ready:
            self._zap.answer()

    def _opened(self, frames: list[zmq.Frame]) -> Heard:
        route = frames[0].bytes
        key = str(frames[0].get("User-Id")) if self._keys else ""
        if self._doors:
            key = sockets.user_of(frames[0])
        if self._doorkeeper:
            self._doorkeeper.heard(frames[0], route)
        sender = FrameSource(sockets.name_of(route), key, route)
        return sender, [frame.bytes for frame in frames[1:]]


class CallingEndpoint(Endpoint):
    """Talks to the head, in frames of up to ``largest`` bytes."""

    def __init__(self, endpoint: str, keys: Keys | None, me: str, largest: int = _LARGEST) -> None:
        self._endpoint, self._keys, self._me, self._largest = endpoint, keys, me, largest
        self._patience = _RENEW
        self._handshakes = Handshakes()
        super().__init__()

    def send(self, route: bytes, message: bytes) -> bool:
        """Send to the head; False also while there is no connection."""
        return not self._socket.closed and sockets.push(self._socket, [message])

    @property
    def link_fault(self) -> LinkFault | None:
        """Why there is no connection, if that is known."""
        return self._handshakes.fault

    def maintain(self, silent: float, usurped: bool) -> None:
        """Connect again: ZeroMQ itself never retries a peer that has refused our key."""
        self._handshakes.waited(silent)
        if usurped:
            self._monitor.close()
            self._socket.close()
        elif silent < _RENEW:
            self._patience = _RENEW
        elif silent >= self._patience:
            self._patience = silent + _RENEW
            with suppress(Refused):
                monitor, old, self._socket = self._monitor, self._socket, self._open()
                monitor.close()
                old.close()

    def _open(self) -> sockets.Socket:
        endpoint = endpoint_of(self._endpoint)  # a head may be elsewhere since
        made: list[SocketMonitor] = []
        try:
            socket = sockets.connect(
                self._context, endpoint, self._keys, self._me, self._largest,
                watch=lambda socket: made.append(SocketMonitor(socket, REPORTS)),
            )  # fmt: skip
        except Refused:  # what watches the present socket stays
            for monitor in made:
                monitor.close()
            raise
        (self._monitor,) = made
        return socket

    def _await(self, poller: zmq.Poller, milliseconds: int, to_send: bool) -> None:
        if not self._socket.closed:
            poller.register(self._socket, zmq.POLLIN | (zmq.POLLOUT if to_send else 0))
            poller.register(self._monitor.socket, zmq.POLLIN)
        poller.poll(milliseconds)
        for report in self._monitor.reports():
            self._handshakes.happened(*report)

    def _opened(self, frames: list[zmq.Frame]) -> Heard:
        return FrameSource(HEAD), [frame.bytes for frame in frames]


class Messenger(Closing):
    """Messages to and from peers by name; made by ``serve`` or ``connect``.

    A message reaches the peer's ``take`` once and in order, however often the link breaks, as long
    as both ends live and neither forgets the other. Otherwise the remaining end takes
    ``Restarted``, and messages under way are lost.
    """

    def __init__(
        self, line: Endpoint, peers: Peers, ring: Callable[[], None], clock: Clock | None = None
    ) -> None:
        self._line, self._peers, self._ring = line, peers, ring
        self._clock = clock or SystemClock()
        self._change = threading.Condition()
        self._waiting: set[str] = set()  # peers to speak to at the next turn
        self._next_round = float("-inf")
        self._over = self._ended = False
        self._fault: BaseException | None = None
        self.faults = Faults()
        """Failures of single peers, whose channels begin again."""
        self._always = frozenset(peers.names)
        self.endpoint = line.endpoint
        self._thread = threading.Thread(
            target=self._run, name=f"messenger {self.endpoint}", daemon=True
        )
        self._thread.start()

    @classmethod
    def serve(
        cls, endpoint: str, keys: Keys | None, ring: Callable[[], None],
        clock: Clock | None = None, authorizer: Authorizer | None = None,
        doors: Sequence[Door] = (),
    ) -> Messenger:  # fmt: skip
        """Listen (``tcp://IP:*`` for any port); the thread calls ``ring`` when messages have come.

        Without keys, but with ``doors`` to processes of other accounts, an ``authorizer`` says who
        may use which name: the key of a peer is then the number of its user.

        Raises:
            Refused: the address is taken or wrong, or TCP was asked for without keys.
        """
        authorizer = authorizer or Authorizer(keys.register if keys else None)
        line = ServingEndpoint(endpoint, keys, doors)
        return cls(line, Peers(time.time_ns, authorizer), ring, clock)

    @classmethod
    def connect(
        cls,
        endpoint: str,
        keys: Keys | None,
        me: str,
        ring: Callable[[], None],
        clock: Clock | None = None,
    ) -> Messenger:
        """Connect to a serving messenger; it knows us as ``me``, we know it as ``"head"``.

        An ``endpoint`` may be ``file:PATH`` (see ``artos.transport.address``), which is read again
        whenever the connection is made anew.

        Raises:
            Refused: the address is wrong, no key is here for ``me``, or TCP was asked for without
                keys.
        """
        peers = Peers(time.time_ns, forget_after=math.inf)
        peers.meet(HEAD, (clock or SystemClock()).now())
        return cls(CallingEndpoint(endpoint, keys, me), peers, ring, clock)

    @property
    def malformed(self) -> int:
        """Malformed messages that came in; each was answered with a ``Refusal``."""
        return self._peers.malformed

    @property
    def link_fault(self) -> LinkFault | None:
        """Why a calling messenger is not connected, if that is known."""
        return self._line.link_fault

    def send(self, peer: str, message: Message) -> None:
        """Queue a message, even for a peer that was never heard. Never blocks.

        Raises:
            MailboxFull: the peer has taken nothing for too long; ``forget`` it.
        """
        with self._change:
            self._check()
            self._peers.put(peer, message, self._clock.now())
            self._waiting.add(peer)
            self._wake()

    def take(self, most: int | None = None) -> list[tuple[str, Message]]:
        """Messages since the last call, with the peers' names, as ``Peers.take``. Never blocks."""
        with self._change:
            came = self._peers.take(most)
            if not came:
                self._check()
            return came

    def silent(self) -> dict[str, float]:
        """Seconds since each peer was heard (also by a beat), or was first written to."""
        with self._change:
            return self._peers.silent(self._clock.now())

    def ended(self) -> set[str]:
        """Peers whose connection was closed, and which have not connected again.

        The kernel closes those of a process that has ended, however it did; one that lives connects
        again in about a second. Known for TCP with keys, and up to ``_ROUND`` seconds late.
        """
        with self._change:
            return self._peers.ended()

    def forget(self, peer: str) -> None:
        """Drop what is queued for a peer; if it is heard again, it takes ``Restarted``."""
        with self._change:
            self._begin_again(peer)

    def close(self, seconds: float = 2.0) -> None:
        """End, after at most ``seconds`` in which all peers may take everything."""
        with self._change:
            self._change.wait_for(lambda: self._over or self._peers.idle, seconds)
            self._over = True
            self._wake()
        self._thread.join(_JOIN_SECONDS)
        if self._thread.is_alive():
            raise DeadlineExceeded(f"the thread of {self._thread.name} to end", _JOIN_SECONDS)

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
            before = self._peers.untaken
            for sender, frames in self._line.heard(_BATCH):
                try:
                    if answer := self._peers.hear(sender, frames, now):
                        self._line.send(sender.route, framed(answer))
                except Exception as error:
                    self._failed(sender.name, error)
                self._waiting.add(sender.name)
            came = self._peers.untaken > before
            if now >= self._next_round:
                self._next_round = now + _ROUND
                silent = min(self._peers.silent(now).values(), default=0.0)
                self._line.maintain(silent, self._peers.usurped(HEAD))
                self._peers.see_ends(self._line.has_ended)
                self._peers.forget_silent(now)
                self._waiting.update(self._peers.names)
            unsent = {name for name in self._waiting if not self._sent_all_to(name, now)}
            for route in self._peers.cut():
                self._line.hang_up(route)
            # A listening socket does not notice when a peer comes back; the next round tries again.
            self._waiting = unsent.intersection(self._always)
            self._change.notify_all()
        if came or self._line.link_fault is not known:
            self._ring()

    def _sent_all_to(self, name: str, now: float) -> bool:
        """Whether a peer has been sent all that is due."""
        try:
            return self._peers.speak(name, now, self._line.send)
        except Exception as error:
            self._failed(name, error)
            return True

    def _failed(self, name: str, error: Exception) -> None:
        """Handling one peer failed: only that peer's channel begins again."""
        self.faults.add(f"the channel to {name!r}", error)
        self._begin_again(name)

    def _begin_again(self, name: str) -> None:
        """Drop a peer's queued messages and its channel."""
        self._peers.forget(name)
        if name in self._always:
            self._peers.meet(name, self._clock.now())

    def _wake(self) -> None:
        if not self._ended:
            self._line.wake()

    def _check(self) -> None:
        if self._fault:
            raise self._fault
