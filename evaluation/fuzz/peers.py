"""A messenger's end, calling or listening, for an attacker who has the keys and sends any bytes."""

from __future__ import annotations

import time
from collections.abc import Callable

from artos.errors import DeadlineExceeded
from artos.protocol.message import Message, Refusal
from artos.system.closing import Closing
from artos.transport import sockets
from artos.transport.authorizer import Authorizer
from artos.transport.keys import Keys
from artos.transport.messenger import HEAD, CallingEndpoint, Endpoint, ServingEndpoint
from artos.transport.peers import Peers

_PATIENCE = 120.0
_NAP = 0.01
_CALM = 0.1


class Loud(Closing):
    """The attacker's end. Its channels follow the protocol, but carry any bytes.

    ``heard`` has the last message of each kind and its sender, ``met`` the route to each peer, and
    ``refused`` counts refusals.
    """

    def __init__(self, line: Endpoint, keys: Keys | None = None) -> None:
        self._line = line
        self.endpoint = line.endpoint
        self._peers = Peers(time.time_ns, Authorizer(keys.register if keys else None))
        self.heard: dict[type[Message], tuple[str, Message]] = {}
        self.refused = 0
        self.met: dict[str, bytes] = {}

    @classmethod
    def calls(cls, endpoint: str, keys: Keys | None, me: str) -> Loud:
        """Call a messenger."""
        end = cls(CallingEndpoint(endpoint, keys, me, sockets.LARGEST))
        end._peers.meet(HEAD, time.monotonic())
        return end

    @classmethod
    def serves(cls, endpoint: str, keys: Keys | None) -> Loud:
        """Be called by messengers."""
        return cls(ServingEndpoint(endpoint, keys), keys)

    def say(self, body: bytes, peer: str = HEAD) -> None:
        """Put any bytes into the channel to a peer."""
        self._peers._peer(peer, time.monotonic()).channel.put(body)

    def throw(self, frame: bytes, peer: str = HEAD) -> bool:
        """Send any bytes past the channel; whether there is a connection with room for them."""
        return self._line.send(self.met.get(peer, b""), frame)

    def insist(self, frame: bytes) -> None:
        """As ``throw``, but wait for a connection with room."""
        self.until(lambda: self.throw(frame), "a connection with room")

    def turn(self) -> None:
        """Send and read all pending messages, and count refusals."""
        self._line.wait(_NAP, to_send=False)
        now = time.monotonic()
        for sender, frames in self._line.heard(1_000):
            self.met[sender.name] = sender.route
            self._peers.hear(sender, frames, now)
        for name in self._peers.names:
            self._peers.speak(name, now, self._line.send)
        for name, message in self._peers.take():
            self.refused += isinstance(message, Refusal)
            self.heard[type(message)] = (name, message)

    def settle(self) -> None:
        """Turn until all messages in the channels have been taken."""
        self.until(lambda: self._peers.idle, "the messages to be taken")

    def calm_down(self, count: Callable[[], int]) -> None:
        """Turn until ``count`` stops rising: the other end has then read everything."""
        before = -1
        while before != (before := count()):
            end = time.monotonic() + _CALM
            self.until(lambda end=end: time.monotonic() > end, "time to pass")  # type: ignore[misc]

    def until(self, enough: Callable[[], object], what: str) -> None:
        """Turn until ``enough()`` holds.

        Raises:
            DeadlineExceeded: it did not hold in time; the message names ``what``.
        """
        end = time.monotonic() + _PATIENCE
        while not enough():
            self.turn()
            if time.monotonic() > end:
                raise DeadlineExceeded(what, _PATIENCE)

    def last(self, kind: type[Message]) -> Message | None:
        """The last message of that kind that came."""
        return self.heard[kind][1] if kind in self.heard else None

    def fresh(self, kind: type[Message], seconds: float) -> Message:
        """A new message of a kind that is sent every few seconds, none that was already on its way.

        Raises:
            DeadlineExceeded: no message came.
        """
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > end, "time to pass")
        self.forget(kind)
        self.until(lambda: self.last(kind), f"a {kind.__name__}")
        return self.heard[kind][1]

    def forget(self, kind: type[Message]) -> None:
        """Forget the last message of that kind."""
        self.heard.pop(kind, None)

    def close(self) -> None:
        """Close the connection."""
        self._line.close()
