"""Sockets between nodes: encrypted, with keep-alive, and open only to holders of a key.

If ``serve`` makes a socket with keys, its context needs a ``ZapHandler``; without a handler no peer
is admitted.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

import zmq
from zmq.utils import z85

from artos.errors import Refused
from artos.system.closing import Closing
from artos.transport.address import cannot_listen, is_endpoint
from artos.transport.keys import Keys

Socket = zmq.Socket[bytes]
Context = zmq.Context[Socket]
Content = bytes | memoryview
Options = dict[int, int | bytes]

_ZAP = "inproc://zeromq.zap.01"  # fixed by ZeroMQ (RFC 27)
_DOMAIN = b"artos"
_BACKLOG = 512  # all workers may connect again at the same moment
_SECRET = "#"  # separates name and secret in a route; no name contains it
LARGEST = (1 << 20) + (64 << 10)
"""Default limit of a frame in bytes: a piece of bulk data and its header.

A peer without a key can make a listening socket hold this much for each connection.
"""
_KEEPALIVE: Options = {
    zmq.LINGER: 0,
    # The kernel finds dead connections within 5 s. ZeroMQ's own heartbeats abort the whole process
    # when a connection breaks while its input waits for room (libzmq 4.3.5).
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 2,
    zmq.TCP_KEEPALIVE_INTVL: 1,
    zmq.TCP_KEEPALIVE_CNT: 3,
    zmq.TCP_MAXRT: 5_000,
    zmq.CONNECT_TIMEOUT: 2_000,
    zmq.HANDSHAKE_IVL: 5_000,
    zmq.RECONNECT_IVL: 100,
    zmq.RECONNECT_IVL_MAX: 1_000,
}


class ZapHandler(Closing):
    """Tells ZeroMQ which peers to admit to any serving socket of a context.

    Poll ``socket``; call ``answer`` when it can be read. Close the handler before the context.
    """

    def __init__(self, context: Context, keys: Keys) -> None:
        self._keys = keys
        self.socket = context.socket(zmq.REP)
        self.socket.linger = 0
        self.socket.bind(_ZAP)

    def answer(self) -> None:
        """Admit or reject one peer; its public key becomes the ``User-Id`` of its frames."""
        version, number, _, _, _, mechanism, *credentials = self.socket.recv_multipart()
        public = z85.encode(credentials[0]) if mechanism == b"CURVE" else b""
        known = public.decode() in self._keys.register().holders
        status = [b"200", b"OK", public, b""] if known else [b"400", b"unknown key", b"", b""]
        self.socket.send_multipart([version, number, *status])

    def close(self) -> None:
        """Stop answering: no new peer is admitted."""
        self.socket.close()


def serve(
    context: Context,
    endpoint: str,
    keys: Keys | None,
    largest: int = LARGEST,
    queue: int = 1000,
    unsent: int | None = None,
) -> Socket:
    """A ROUTER that listens at ``endpoint`` (``tcp://IP:*`` for any port, ``ipc://PATH``).

    A frame of more than ``largest`` bytes ends its connection. Up to ``queue`` messages are queued
    each way for each peer (``unsent``, if given, is the limit of those that go out).
    Sending to an absent peer raises ``zmq.ZMQError`` (``push`` turns that into False).

    Raises:
        Refused: the address is taken or wrong, or TCP was asked for without keys.
    """
    options: Options = {zmq.ROUTER_MANDATORY: 1, zmq.BACKLOG: _BACKLOG}
    # A peer that comes back may find its dead connection still there: the new connection replaces
    # it.
    options[zmq.ROUTER_HANDOVER] = 1
    if keys is not None:
        options |= {
            zmq.CURVE_SERVER: 1,
            zmq.CURVE_SECRETKEY: keys.head_secret,
            zmq.ZAP_DOMAIN: _DOMAIN,
            zmq.ZAP_ENFORCE_DOMAIN: 1,
        }
    options |= _limits(endpoint, keys, largest, queue)
    if unsent is not None:
        options[zmq.SNDHWM] = unsent
    socket = _socket(context, zmq.ROUTER, options)
    return _bound(socket, endpoint)


def listen(socket: Socket, endpoint: str) -> None:
    """Have a serving socket listen at one more endpoint.

    Raises:
        Refused: the address is taken or wrong.
    """
    _bound(socket, endpoint)


def user_of(frame: zmq.Frame) -> str:
    """The number of the user whose process sent a frame over an ipc socket, by the kernel."""
    *_, user, _, _ = str(frame.get("Peer-Address")).split(":")  # its user, group and process
    return user


def connect(
    context: Context,
    endpoint: str,
    keys: Keys | None,
    me: str,
    largest: int = LARGEST,
    queue: int = 1000,
    watch: Callable[[Socket], object] = lambda socket: None,
) -> Socket:
    """A DEALER known as ``me`` to the serving socket; connects again whenever the link breaks.

    Its route (ZeroMQ's routing id) is that name and a secret: a peer that connects with another
    peer's route takes that peer's place, so routes must not be guessable.

    ``watch`` is called with the socket before it connects (e.g. to make a ``SocketMonitor``).

    Nothing is queued while there is no connection. A message to this socket must be one frame, as
    ``artos.protocol.codec`` makes them. ZeroMQ does not retry a peer that refused the key: if
    nothing is heard for some seconds, connect again.

    Raises:
        Refused: the address is wrong, no key is here for ``me``, or TCP was asked for without keys.
    """
    route = f"{me}{_SECRET}{secrets.token_hex(16)}".encode()
    options: Options = {zmq.ROUTING_ID: route, zmq.IMMEDIATE: 1}
    if keys is not None:
        secret = keys.secret_of(me)
        options |= {
            zmq.CURVE_SERVERKEY: keys.head,
            zmq.CURVE_SECRETKEY: secret,
            zmq.CURVE_PUBLICKEY: zmq.curve_public(secret),
        }
    options |= _limits(endpoint, keys, largest, queue)
    socket = _socket(context, zmq.DEALER, options)
    watch(socket)
    try:
        socket.connect(endpoint)
    except zmq.ZMQError as error:
        socket.close()
        raise Refused([f"cannot connect to {endpoint}: {error.strerror}"]) from error
    return socket


def bound(socket: Socket) -> str:
    """The actual endpoint of a serving socket (with the port that ``tcp://IP:*`` got)."""
    return bytes(socket.get(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()


def name_of(route: bytes) -> str:
    """The name in a route; "" if there is none. Only the holder of the name's key may use it."""
    return route.decode(errors="replace").rpartition(_SECRET)[0]


def push(socket: Socket, frames: Sequence[Content], copy: bool = True) -> bool:
    """Send now or not at all: False if the peer is absent or its queue is full."""
    try:
        socket.send_multipart(frames, zmq.NOBLOCK, copy=copy)
    except zmq.Again:
        return False
    except zmq.ZMQError as error:
        if error.errno == zmq.EHOSTUNREACH:
            return False
        raise
    return True


def _limits(endpoint: str, keys: Keys | None, largest: int, queue: int) -> Options:
    if not (endpoint.startswith("ipc://") or is_endpoint(endpoint)):
        raise Refused([f"{endpoint!r} is no address: write tcp://IP:PORT"])
    if keys is None and endpoint.startswith("tcp:"):
        raise Refused([f"{endpoint} without keys: give --keys DIR (`artos keys DIR` makes them)"])
    limits = {zmq.MAXMSGSIZE: largest, zmq.SNDHWM: queue, zmq.RCVHWM: queue}
    return _KEEPALIVE | limits | {zmq.IPV6: int("[" in endpoint)}


def _socket(context: Context, kind: int, options: Options) -> Socket:
    socket = context.socket(kind)
    for option, value in options.items():
        socket.set(option, value)
    return socket


def _bound(socket: Socket, endpoint: str) -> Socket:
    try:
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        socket.close()
        raise cannot_listen(endpoint, error) from error
    return socket
