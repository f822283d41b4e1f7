"""Why a calling socket gets no connection, according to ZeroMQ's reports about it. Pure."""

from __future__ import annotations

import enum
import errno

import zmq

REPORTS = (
    zmq.EVENT_CONNECTED
    | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)
_MOST_TRIES = 4  # four refused attempts take 0.7 s, by the intervals in ``sockets``
_SECONDS = 1.5  # after that one failed attempt is enough: nothing there even refuses it
_HANGS_UP = 2  # a head that is killed during a handshake hangs up, too, but only once
_HUNG_UP = (errno.EPIPE, errno.ECONNRESET)


class LinkFault(enum.Enum):
    """Why a link cannot be established."""

    NOBODY = enum.auto()
    """Nothing listens there."""
    NO_HEAD = enum.auto()
    """The process that listens there is not a head."""
    OTHER_HEAD = enum.auto()
    """The peer closes the connection: ``head.key`` is not its key, or it is not a head."""
    UNKNOWN_KEY = enum.auto()
    """The head does not accept our key."""

    @property
    def of_keys(self) -> bool:
        """Whether other keys could help."""
        return self in (LinkFault.OTHER_HEAD, LinkFault.UNKNOWN_KEY)


class Handshakes:
    """What came of the attempts to connect so far."""

    def __init__(self) -> None:
        self.fault: LinkFault | None = None
        """None while nothing is known, and when all is well.

        A silent head is not a fault of the link: the head may be busy.
        """
        self._tries = self._hung_up = 0
        self._connected = self._shaken = False

    def happened(self, kind: int, number: int) -> None:
        """Take a report of ZeroMQ, as ``SocketMonitor.reports`` gives them."""
        match kind:
            case zmq.EVENT_CONNECTED:
                self._tries, self._connected, self._shaken = 0, True, False
            case zmq.EVENT_CONNECT_RETRIED:
                self._tries += not self._connected
                self._connected = False
                if self._tries >= _MOST_TRIES:
                    self.fault = LinkFault.NOBODY
            case zmq.EVENT_DISCONNECTED:
                if not self._shaken:  # the peer answered, but not with a handshake
                    self.fault = LinkFault.NO_HEAD
            case _:
                self._shaken = True
                self.fault = self._after_handshake(kind, number)

    def _after_handshake(self, kind: int, number: int) -> LinkFault | None:
        match kind:
            case zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                return LinkFault.UNKNOWN_KEY
            case zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                return LinkFault.NO_HEAD
            case zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
                self._hung_up += number in _HUNG_UP  # else the handshake timed out
                return LinkFault.OTHER_HEAD if self._hung_up >= _HANGS_UP else self.fault
        self._hung_up = 0
        return None

    def waited(self, seconds: float) -> None:
        """Nothing was heard for this many seconds."""
        if self._tries and seconds >= _SECONDS:
            self.fault = LinkFault.NOBODY
