"""What a post knows: a channel for each peer, messages that came in, who may talk. No sockets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from artos.errors import BadMessage, MailboxFull
from artos.transport import wire
from artos.transport.channel import Channel

_MOST_UNTAKEN = 100_000  # messages; from here on peers must send again
_MOST_UNTAKEN_BYTES = 1 << 28
_FORGET = 300.0  # seconds of silence; who asks once (`artos status`) is not remembered for ever
_USURPED = "somebody else has connected under your name: every node needs a name of its own"

Accepts = Callable[[str], bool]


@dataclass(slots=True)
class _Peer:
    channel: Channel
    heard_at: float
    key: str = ""
    usurped: bool = False


class Peers:
    """All peers of one socket. ``accepts`` says whether a public key (now) is a friend's."""

    def __init__(
        self, sessions: Callable[[], int], accepts: Accepts | None = None,
        forget_after: float = _FORGET,
    ) -> None:  # fmt: skip
        self.malformed = 0
        self._sessions, self._accepts, self._forget_after = sessions, accepts, forget_after
        self._peers: dict[str, _Peer] = {}
        self._came: list[tuple[str, wire.Message]] = []
        self._bytes = 0  # of these

    @property
    def names(self) -> list[str]:
        """Everybody."""
        return list(self._peers)

    @property
    def idle(self) -> bool:
        """Whether everybody has taken everything."""
        return all(peer.channel.idle for peer in self._peers.values())

    @property
    def untaken(self) -> int:
        """Messages that wait for ``take``."""
        return len(self._came)

    def take(self) -> list[tuple[str, wire.Message]]:
        """What came in since the last time, and from whom."""
        came, self._came, self._bytes = self._came, [], 0
        return came

    def silent(self, now: float) -> dict[str, float]:
        """Seconds since each was heard, or was first written to."""
        return {name: now - peer.heard_at for name, peer in self._peers.items()}

    def put(self, name: str, message: wire.Message, now: float) -> None:
        """Queue a message.

        Raises:
            MailboxFull: the peer has taken nothing for too long.
        """
        self._peer(name, now).channel.put(wire.encode(message))

    def meet(self, name: str, now: float) -> None:
        """Have a peer of this name, to be told that we are here."""
        self._peer(name, now)

    def forget(self, name: str) -> None:
        """Drop what is queued; if the peer is heard again, it is as new and is told so."""
        self._peers.pop(name, None)

    def forget_silent(self, now: float) -> None:
        """Forget who has not been heard for minutes."""
        for name, seconds in self.silent(now).items():
            if seconds > self._forget_after:
                self.forget(name)

    def usurped(self, name: str) -> bool:
        """Whether another process talks to this peer in our name."""
        return name in self._peers and self._peers[name].usurped

    def hear(self, name: str, key: str, frames: list[bytes], now: float) -> wire.Refusal | None:
        """Take in what a peer sent; a refusal is to be sent back as it is, without a seal."""
        if not self._friend(key):
            self._shut_out(name, key)
            return None
        try:
            first = _opening(name, frames)
            if isinstance(first, wire.Refusal):
                if self._has_room:
                    self._came.append((name, first))
            else:
                self._listen(name, key, first, now)
        except BadMessage as error:
            return self._refused(error)
        return None

    def speak(self, name: str, now: float, send: Callable[[bytes], bool]) -> bool:
        """Send a peer what is due; False if ``send`` could not (it is asked again later)."""
        peer = self._peers.get(name)
        if peer is None:
            return True
        if not self._friend(peer.key):
            self._shut_out(name, peer.key)
            return True
        for seal in peer.channel.speak(now):
            if not send(wire.encode(seal)):
                peer.channel.unsent(seal)
                return False
        return True

    def _peer(self, name: str, now: float) -> _Peer:
        if name not in self._peers:
            self._peers[name] = _Peer(Channel(self._sessions(), name), now)
        return self._peers[name]

    @property
    def _has_room(self) -> bool:
        return len(self._came) < _MOST_UNTAKEN and self._bytes < _MOST_UNTAKEN_BYTES

    def _friend(self, key: str) -> bool:
        return self._accepts is None or self._accepts(key)

    def _shut_out(self, name: str, key: str) -> None:
        """Its key is no longer good: nothing is kept for it, and it counts as not heard."""
        peer = self._peers.get(name)
        if peer is not None and key and peer.key == key:
            peer.channel = Channel(self._sessions(), name)

    def _refused(self, error: BadMessage) -> wire.Refusal:
        self.malformed += 1
        return wire.Refusal(str(error))

    def _listen(self, name: str, key: str, seal: wire.Seal, now: float) -> None:
        peer = self._peer(name, now)
        peer.key, peer.heard_at = key, now
        if peer.channel.meet(seal):
            self._came.append((name, wire.Restarted()))
        if peer.channel.usurped and not peer.usurped:
            peer.usurped = True
            self._came.append((name, wire.Refusal(_USURPED)))
        try:
            whole = peer.channel.hear(seal, now, self._has_room)
            if whole is not None:
                self._came.append((name, _unsealed(whole)))
                self._bytes += len(whole)
        except BadMessage as error:
            with suppress(MailboxFull):
                peer.channel.put(wire.encode(self._refused(error)))


def _opening(name: str, frames: list[bytes]) -> wire.Seal | wire.Refusal:
    if len(frames) != 1 or not name or not name.isprintable():
        raise BadMessage(f"{len(frames)} frames, or a routing id that is no name")
    first = wire.decode(frames[0])
    if not isinstance(first, wire.Seal):
        if isinstance(first, wire.Refusal):
            return first
        raise BadMessage(f"{type(first).__name__} came without a Seal before it")
    if bool(first.number) != bool(len(first.content)):
        raise BadMessage(f"{len(first.content)} bytes with piece {first.number}")
    return first


def _unsealed(whole: bytes) -> wire.Message:
    message = wire.decode(whole)
    if isinstance(message, wire.Seal):
        raise BadMessage("a Seal in the place of a message")
    return message
