"""Somebody without a key at a listening socket: a plain TCP connection that speaks some ZMTP."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

_PATIENCE = 60.0
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"CURVE".ljust(20, b"\0") + bytes(32)
"""The first bytes of a ZMTP 3.0 connection (given by ZeroMQ, RFC 23)."""
COMMAND = 0x06
"""Flags of a long command frame, as those of a handshake are."""


class Stranger:
    """A plain TCP connection that speaks ZMTP up to where a key is needed."""

    def __init__(self, endpoint: str) -> None:
        host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
        self.socket = socket.create_connection((host, int(port)), _PATIENCE)

    def send(self, size: int, most: int) -> int:
        """Announce a frame of ``size`` bytes, send at most ``most`` of it; how many were taken."""
        sent = 0
        with suppress(OSError):
            self.socket.sendall(GREETING + bytes([COMMAND]) + struct.pack(">Q", size))
            while sent < most:
                sent += self.socket.send(bytes(min(1 << 16, most - sent)))
        return sent

    @property
    def is_cut_off(self) -> bool:
        """Whether the other end hung up; does not wait."""
        self.socket.setblocking(False)
        try:
            while self.socket.recv(1 << 16):
                pass
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True


@contextmanager
def strangers(endpoint: str, count: int) -> Iterator[list[Stranger]]:
    with ExitStack() as stack:
        made = [Stranger(endpoint) for _ in range(count)]
        for each in made:
            stack.callback(each.socket.close)
        yield made
