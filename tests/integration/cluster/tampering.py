"""Somebody between the agents and a replay process who has the keys, and spoils what he likes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import zmq

from artos.errors import BadMessage
from artos.protocol import codec
from artos.protocol.data import Pull, Weights
from artos.protocol.message import Message
from artos.system.closing import Closing
from artos.transport import sockets
from artos.transport.keys import Keys


class Tamperer(Closing):
    """Passes messages on, and turns a bit of those weights that ``spoils`` says (who, message).

    ``pulls`` says who asked for weights, and which version it had.
    """

    def __init__(self, target: str, keys: Path, spoils: Callable[[str, Weights], bool]) -> None:
        self._target, self._keys, self._spoils = target, Keys.load(keys), spoils
        self._context: sockets.Context = zmq.Context()
        self._gate = sockets.ZapHandler(self._context, self._keys)
        self._front = sockets.serve(self._context, "tcp://127.0.0.1:*", self._keys, queue=0)
        self.endpoint = sockets.bound(self._front)
        self._backs: dict[bytes, sockets.Socket] = {}
        self.pulls: list[tuple[str, int]] = []
        self._over = False
        self._thread = threading.Thread(target=self._run, name="tamperer")
        self._thread.start()

    def _run(self) -> None:
        while not self._over:
            watched = [self._gate.socket, self._front, *self._backs.values()]
            ready = {what for what, _ in zmq.zmq_poll([(s, zmq.POLLIN) for s in watched], 20)}
            if self._gate.socket in ready:
                self._gate.answer()
            if self._front in ready:
                self._up(*self._front.recv_multipart())
            for who, back in tuple(self._backs.items()):
                if back in ready:
                    self._down(who, back.recv_multipart())

    def _up(self, who: bytes, *frames: bytes) -> None:
        if who not in self._backs:
            name = sockets.name_of(who)
            back = sockets.connect(self._context, self._target, self._keys, name, queue=0)
            self._backs[who] = back
        if isinstance(message := _decoded(frames[0]), Pull):
            self.pulls.append((sockets.name_of(who), message.have))
        self._backs[who].send_multipart(frames)  # waits for the connection

    def _down(self, who: bytes, frames: list[bytes]) -> None:
        message = _decoded(frames[0])
        if isinstance(message, Weights) and self._spoils(sockets.name_of(who), message):
            content = bytearray(message.content)
            content[len(content) // 2] ^= 4
            spoilt = msgspec.structs.replace(message, content=memoryview(content))
            frames = [codec.encode(spoilt)]
        sockets.push(self._front, [who, *frames])

    def close(self) -> None:
        """Go away."""
        self._over = True
        self._thread.join()
        self._context.destroy(linger=0)


def _decoded(frame: bytes) -> Message | None:
    try:
        return codec.decode(frame)
    except BadMessage:
        return None
