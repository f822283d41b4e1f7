"""The state of a messenger: a channel for each peer, received messages, permits. No sockets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from artos.errors import BadMessage, MailboxFull
from artos.protocol import codec
from artos.protocol.message import MARK, Message, Refusal, Restarted
from artos.transport.authorizer import Authorizer
from artos.transport.channel import Channel, Envelope, opened
from artos.transport.untaken import Untaken

_PILE = 1 << 26  # bytes queued for a peer that does not read them
_MOST_PACKED = 1 << 26  # bytes of a message that has to be unpacked as a whole
_FORGET = 300.0  # seconds of silence; one-time peers (`artos status`) must be forgotten
_MANY = 20_000  # peers, beyond which the silent are forgotten sooner
_FORGET_OF_MANY = 15.0
_USURPED = "another peer has connected under your name: every node needs a name of its own"


class FrameSource(NamedTuple):
    """A sender: a name, a public key ("" without keys), and the route back."""

    name: str
    key: str = ""
    route: bytes = b""


@dataclass(slots=True)
class _Peer:
    channel: Channel
    heard_at: float
    route: bytes = b""
    usurped: bool = False
    has_ended: bool = False


class Peers:
    """All peers of one socket, by name; ``authorizer`` says which key may use which name."""

    def __init__(
        self,
        sessions: Callable[[], int],
        authorizer: Authorizer | None = None,
        forget_after: float = _FORGET,
    ) -> None:
        self.malformed = 0
        self._sessions, self._forget_after = sessions, forget_after
        self._authorizer = authorizer or Authorizer()
        self._peers: dict[str, _Peer] = {}
        self._came = Untaken()
        self._cut: list[bytes] = []

    @property
    def names(self) -> list[str]:
        """The names of all peers."""
        return list(self._peers)

    @property
    def idle(self) -> bool:
        """Whether all peers have taken everything."""
        return all(peer.channel.idle for peer in self._peers.values())

    @property
    def untaken(self) -> int:
        """Messages that wait for ``take``."""
        return len(self._came)

    def refresh(self) -> None:
        """Look up the valid keys; call it before ``hear`` and ``speak``, once a turn."""
        self._authorizer.refresh()

    def take(self, most: int | None = None) -> list[tuple[str, Message]]:
        """Messages since the last call, with their senders; holders of keys take turns.

        With ``most``, at most that many, and only of peers that read what they are sent: one that
        asks and does not read the answers has to wait.
        """
        return self._came.take() if most is None else self._came.take(most, self._reads)

    def _reads(self, name: str) -> bool:
        peer = self._peers.get(name)
        return peer is None or peer.channel.queued < _PILE

    def cut(self) -> list[bytes]:
        """Routes of connected peers whose key is no longer valid."""
        cut, self._cut = self._cut, []
        return cut

    def silent(self, now: float) -> dict[str, float]:
        """Seconds since each peer was heard, or was first written to."""
        return {name: now - peer.heard_at for name, peer in self._peers.items()}

    def see_ends(self, has_ended: Callable[[bytes], bool]) -> None:
        """Note whose connections were closed, given that of a route."""
        for peer in self._peers.values():
            peer.has_ended = has_ended(peer.route)

    def ended(self) -> set[str]:
        """Peers whose connection was closed, at the last ``see_ends``."""
        return {name for name, peer in self._peers.items() if peer.has_ended}

    def put(self, name: str, message: Message, now: float) -> None:
        """Queue a message.

        Raises:
            MailboxFull: the peer has taken nothing for too long.
        """
        self._peer(name, now).channel.put(codec.encode(message))

    def meet(self, name: str, now: float) -> None:
        """Add a peer of this name, so that it is told that we are here."""
        self._peer(name, now)

    def forget(self, name: str) -> None:
        """Drop messages queued for a peer; if heard again, it is treated as new and told so."""
        self._peers.pop(name, None)
        self._authorizer.forget(name)

    def forget_silent(self, now: float) -> None:
        """Forget peers that were not heard for minutes, or for seconds if there are many."""
        few = len(self._peers) <= _MANY
        longest = self._forget_after if few else min(self._forget_after, _FORGET_OF_MANY)
        for name, seconds in self.silent(now).items():
            if seconds > longest:
                self.forget(name)

    def usurped(self, name: str) -> bool:
        """Whether another process talks to this peer under our name."""
        return name in self._peers and self._peers[name].usurped

    def hear(
        self, sender: FrameSource, frames: list[bytes], now: float
    ) -> Envelope | Message | None:
        """Take a peer's frames; the returned envelope or message goes straight back to it."""
        if not self._authorizer.accepts(sender.key):
            if self._authorizer.belongs(sender.name, sender.key):
                self._cut_off(sender.name)
            self._cut.append(sender.route)
            return None
        try:
            first = _content_of(sender.name, frames)
            if (
                self._authorizer.claim(sender.name, sender.key, now)
                and self._peers.pop(sender.name, None) is not None
            ):  # from now on the name belongs to a peer with another key
                self._peer(sender.name, now)
                self._came.put(sender.name, Restarted())
            if not isinstance(first, Refusal):
                return self._hear_envelope(sender, first, now)
            if self._came.has_room(sender.name):
                self._came.put(sender.name, first)
        except BadMessage as error:
            return self._refused(error)
        return None

    def speak(self, name: str, now: float, send: Callable[[bytes, bytes], bool]) -> bool:
        """``send`` a peer (by its route) the frames due; False if that failed: call again later."""
        peer = self._peers.get(name)
        if peer is None:
            return True
        if not self._authorizer.knows(name):
            self._cut_off(name)
            return True
        for envelope in peer.channel.speak(now):
            if not send(peer.route, envelope.packed()):
                peer.channel.unsent(envelope)
                return False
        return True

    def _peer(self, name: str, now: float) -> _Peer:
        if name not in self._peers:
            self._peers[name] = _Peer(Channel(self._sessions(), name), now)
        return self._peers[name]

    def _cut_off(self, name: str) -> None:
        """Drop everything kept for a peer whose key is no longer valid, and cut its connection."""
        if name in self._peers and self._authorizer.has_claimed(name):
            self._peers[name].channel = Channel(self._sessions(), name)
            self._cut.append(self._peers[name].route)

    def _refused(self, error: BadMessage) -> Refusal:
        self.malformed += 1
        return Refusal(str(error))

    def _hear_envelope(
        self, sender: FrameSource, envelope: Envelope, now: float
    ) -> Envelope | None:
        name, peer = sender.name, self._peer(sender.name, now)
        if peer.channel.meet(envelope):
            self._came.put(name, Restarted())
        elif peer.channel.is_former(envelope) and sender.route != peer.route:
            return peer.channel.beat()  # a former session, or one whose clock is behind
        peer.route, peer.heard_at = sender.route, now
        if peer.channel.usurped and not peer.usurped:
            peer.usurped = True
            self._came.put(name, Refusal(_USURPED))
        try:
            whole = peer.channel.hear(envelope, now, self._came.has_room(name))
            if whole is not None:
                self._came.put(name, self._permitted(name, whole), len(whole))
        except BadMessage as error:
            with suppress(MailboxFull):
                peer.channel.put(codec.encode(self._refused(error)))
        return None

    def _permitted(self, name: str, whole: bytes) -> Message:
        if len(whole) > _MOST_PACKED and whole[0] != MARK:
            raise BadMessage(f"{len(whole)} bytes, and no bulk message")
        message = codec.decode(whole)
        self._authorizer.permit(name, message)
        return message


def _content_of(name: str, frames: list[bytes]) -> Envelope | Refusal:
    if len(frames) != 1 or not name or not name.isprintable():
        raise BadMessage(f"{len(frames)} frames, or a routing id that is not a name")
    first = opened(frames[0])
    if not isinstance(first, Envelope):
        if isinstance(first, Refusal):
            return first
        raise BadMessage(f"{type(first).__name__} came without an Envelope around it")
    if bool(first.number) != bool(len(first.content)):
        raise BadMessage(f"{len(first.content)} bytes with piece {first.number}")
    return first
