"""Both ends of a messenger, for an attacker who has the keys and sends any bytes."""

from __future__ import annotations

import time
from collections.abc import Callable

from artos.errors import DeadlineExceeded
from artos.protocol.message import Message, Refusal
from artos.system.closing import Closing
from artos.transport import sockets
from artos.transport.authorizer import Authorizer
from artos.transport.keys import Keys
from artos.transport.messenger import HEAD, Calling, Line, Listening
from artos.transport.peers import Peers

_PATIENCE = 120.0
_NAP = 0.01
_CALM = 0.1


class Loud(Closing):
    """One end. Its channels are honest, and what they carry is not.

    ``heard`` has the last message of each kind and its sender, ``met`` all peers and the way to
    them, and ``refused`` counts refusals.
    """

    def __init__(self, line: Line, keys: Keys | None = None) -> None:
        self._line = line
        self.endpoint = line.endpoint
        self._peers = Peers(time.time_ns, Authorizer(keys.register if keys else None))
        self.heard: dict[type[Message], tuple[str, Message]] = {}
        self.refused = 0
        self.met: dict[str, bytes] = {}

    @classmethod
    def calls(cls, endpoint: str, keys: Keys | None, me: str) -> Loud:
        """Call a messenger."""
        end = cls(Calling(endpoint, keys, me, sockets.LARGEST))
        end._peers.meet(HEAD, time.monotonic())
        return end

    @classmethod
    def serves(cls, endpoint: str, keys: Keys | None) -> Loud:
        """Be called by messengers."""
        return cls(Listening(endpoint, keys), keys)

    def say(self, body: bytes, peer: str = HEAD) -> None:
        """Put anything into the channel to a peer."""
        self._peers._peer(peer, time.monotonic()).channel.put(body)

    def throw(self, frame: bytes, peer: str = HEAD) -> bool:
        """Send anything past the channel; whether there is a connection with room for it."""
        return self._line.send(self.met.get(peer, b""), frame)

    def insist(self, frame: bytes) -> None:
        """The same, once there is such a connection."""
        self.until(lambda: self.throw(frame), "a connection with room")

    def turn(self) -> None:
        """Send and read what there is; refusals are counted and forgotten."""
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
        """Until all is taken that was said."""
        self.until(lambda: self._peers.idle, "what was said to be taken")

    def calm_down(self, count: Callable[[], int]) -> None:
        """Until what is counted at the other end counts no further: it has read all there was."""
        before = -1
        while before != (before := count()):
            end = time.monotonic() + _CALM
            self.until(lambda end=end: time.monotonic() > end, "time to pass")  # type: ignore[misc]

    def until(self, enough: Callable[[], object], what: str) -> None:
        """Turn until there is enough.

        Raises:
            DeadlineExceeded: there never is.
        """
        end = time.monotonic() + _PATIENCE
        while not enough():
            self.turn()
            if time.monotonic() > end:
                raise DeadlineExceeded(what, _PATIENCE)

    def last(self, kind: type[Message]) -> Message | None:
        """The last message of a kind that came."""
        return self.heard[kind][1] if kind in self.heard else None

    def fresh(self, kind: type[Message], seconds: float) -> Message:
        """A message of a kind that is told so often, and of now: none that was on its way.

        Raises:
            DeadlineExceeded: there is none.
        """
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > end, "time to pass")
        self.forget(kind)
        self.until(lambda: self.last(kind), f"a {kind.__name__}")
        return self.heard[kind][1]

    def forget(self, kind: type[Message]) -> None:
        """What came of that kind so far does not count any more."""
        self.heard.pop(kind, None)

    def close(self) -> None:
        """Hang up."""
        self._line.close()
