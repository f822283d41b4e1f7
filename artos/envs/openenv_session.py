"""Sessions of an OpenEnv server: what it declares, and the messages of its WebSocket.

OpenEnv's own client brings a web interface, clients of language models and a command line; what
is spoken here is the protocol of its versions 0.2 and later, which is one JSON text for each
question and each answer.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect

from artos.errors import DeadlineExceeded, EnvServerFailed, Refused

_LARGEST = 64 * 2**20
"""Bytes of an answer."""
_OF_SCHEMA = 2**20
_GOODBYE = 2.0
_ROOM, _AGAIN = 5.0, 0.25
"""Seconds for others to leave a full server, or for it to listen again, and between asking it."""
_FULL = "CAPACITY_REACHED"


class Answer(msgspec.Struct, frozen=True):
    """What a server answers to ``reset`` and to ``step``."""

    observation: dict[str, Any]
    reward: float | bool | None = None
    done: bool = False
    truncated: bool = False
    metadata: dict[str, Any] | None = None


class Declared(msgspec.Struct, frozen=True):
    """JSON schemas of the objects that a server takes and returns."""

    action: dict[str, Any]
    observation: dict[str, Any]


class _Error(msgspec.Struct, frozen=True):
    message: str = "it does not say why"
    code: str = ""
    errors: list[Any] = []


class _Frame(msgspec.Struct, frozen=True):
    type: str
    data: msgspec.Raw


def checked_url(url: str) -> str:
    """An address without a slash at its end.

    Raises:
        Refused: it is not ``ws://host:port`` or the like, or has a secret in it.
    """
    try:
        parts = urlsplit(url)
        there = (
            parts.scheme in ("ws", "wss", "http", "https") and parts.hostname and parts.port != 0
        )
    except ValueError:
        there = False
    if not there:
        raise Refused([f"openenv:{url} names no server: write --env openenv:ws://HOST:PORT"])
    if parts.username or parts.password or parts.query or parts.fragment:
        raise Refused(
            [
                f"openenv:{parts.scheme}://{parts.hostname} has more than host, port and path: "
                "addresses are recorded and seen by others, so keep names and passwords out of them"
            ]
        )
    return url.rstrip("/")


def declared(url: str, deadline: float) -> Declared:
    """What the server at ``url`` declares, within ``deadline`` seconds.

    Raises:
        EnvServerFailed: it cannot be reached, or is no OpenEnv server.
        DeadlineExceeded: it does not answer.
    """
    where = f"http{url.removeprefix('ws').removeprefix('http')}/schema"
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    begun = time.monotonic()
    while True:
        try:
            return _declared(url, where, direct, deadline)
        except EnvServerFailed as error:
            # One that is being restarted listens again soon, and an actor is restarted only thrice.
            refused = isinstance(getattr(error.__cause__, "reason", None), ConnectionRefusedError)
            if not refused or time.monotonic() > begun + min(_ROOM, deadline):
                raise
            time.sleep(_AGAIN)


def _declared(
    url: str, where: str, direct: urllib.request.OpenerDirector, deadline: float
) -> Declared:
    try:
        with direct.open(where, timeout=deadline) as answer:
            return msgspec.json.decode(answer.read(_OF_SCHEMA), type=Declared)
    except urllib.error.HTTPError as error:
        with error:
            why = f"answers {error.code} ({error.reason}) where its schemas should be, at /schema"
        raise EnvServerFailed(url, why, _WHICH) from error
    except OSError as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, TimeoutError):
            raise DeadlineExceeded(
                f"the OpenEnv server at {url} to say its schemas", deadline
            ) from error
        raise EnvServerFailed(url, f"cannot be reached: {reason}", _START) from error
    except (msgspec.MsgspecError, ValueError, urllib.error.URLError) as error:
        why = f"says something else than schemas at /schema: {error}"
        raise EnvServerFailed(url, why, _WHICH) from error


class Session:
    """An environment of its own on a server, from the first question until it is closed.

    It is not opened before: processes that are made of this one by forking or cloning have sessions
    of their own. While one is open, a thread of its own answers the server's pings.
    """

    def __init__(self, url: str, deadline: float) -> None:
        self.url, self.deadline = url, deadline
        self._socket: ClientConnection | None = None
        self._opened = ExitStack()

    def ask(self, call: str, data: dict[str, Any]) -> Answer:
        """The answer to ``reset`` or ``step``. After an error the session is closed.

        Raises:
            EnvServerFailed: the server is gone, full, or answers with an error or nonsense.
            DeadlineExceeded: it does not answer within ``deadline`` seconds.
        """
        begun = time.monotonic()
        while True:
            try:
                frame = self._exchange(call, data, time.monotonic() + self.deadline)
                if frame.type == "observation":
                    return msgspec.json.decode(frame.data, type=Answer)
                if frame.type != "error":
                    raise self._failed(call, f"an answer of type {frame.type!r}")
                error = msgspec.json.decode(frame.data, type=_Error)
            except msgspec.MsgspecError as nonsense:
                raise self._failed(
                    call, f"what is no answer of OpenEnv's: {nonsense}"
                ) from nonsense
            if error.code != _FULL or time.monotonic() > begun + _ROOM:
                more = f" ({error.errors[0]})" if error.errors else ""
                raise self._failed(
                    call, f"an error: {error.message}{more}", _MORE if error.code == _FULL else _LOG
                )
            self.close()  # one that was just closed or killed may not have left yet
            time.sleep(_AGAIN)

    def _exchange(self, call: str, data: dict[str, Any], until: float) -> _Frame:
        """Ask, opening the session first if need be, and wait for the answer."""
        opened = self._socket is not None
        try:
            if self._socket is None:
                connecting = connect(
                    f"ws{self.url.removeprefix('http').removeprefix('ws')}/ws",
                    open_timeout=self.deadline, close_timeout=_GOODBYE, ping_interval=None,
                    max_size=_LARGEST, compression=None, proxy=None,
                )  # fmt: skip
                self._socket = self._opened.enter_context(connecting)
                opened = True
            with suppress(ConnectionClosed):  # a server that is full says so, whatever it is asked
                self._socket.send(msgspec.json.encode({"type": call, "data": data}).decode())
            raw = self._socket.recv(max(0.0, until - time.monotonic()))
            return msgspec.json.decode(raw, type=_Frame)
        except TimeoutError as error:
            self._drop()
            what = f"answer to {call}" if opened else "open a session"
            raise DeadlineExceeded(
                f"the OpenEnv server at {self.url} to {what}", self.deadline
            ) from error
        except (OSError, WebSocketException) as error:
            self._drop()
            if not opened:
                raise EnvServerFailed(self.url, f"cannot be reached: {error}", _START) from error
            why = f"ended a session before it answered to {call}: {error}"
            raise EnvServerFailed(self.url, why, _IDLE) from error

    def _failed(self, call: str, what: str, then: str = "") -> EnvServerFailed:
        self._drop()
        return EnvServerFailed(self.url, f"answered to {call} with {what}", then or _WHICH)

    def _drop(self) -> None:
        """Close the connection at once; the server ends the session when it notices."""
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close_timeout = 0.0
        with suppress(OSError, WebSocketException):
            self._opened.close()

    def close(self) -> None:
        """End the session; returns once the server has, or does not within seconds."""
        if self._socket is not None:
            with suppress(OSError, WebSocketException):
                self._socket.send('{"type": "close"}')
                while True:
                    self._socket.recv(_GOODBYE)
        self._drop()


_START = "start it, or correct the address; it must be reachable from where actors run"
_WHICH = "make sure that it is an OpenEnv server of openenv 0.2 or later, and look at its log"
_LOG = "look at the server's log"
_MORE = (
    "each environment of each actor needs a session, and a check before the run two: raise "
    "max_concurrent_envs of the server, or use fewer actors and envs"
)
_IDLE = (
    "look whether it still runs; if actors were parked for long, start it with a longer "
    "--ws-ping-timeout"
)
