"""A link that carries so many bytes and no more: whoever sends over it is cut off in the middle."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

from helpers import PATIENCE

from artos.system.closing import Closing


class Sluice(Closing):
    """Between those who connect to ``endpoint`` and the real one, as plain bytes.

    Once it is ``narrow`` it takes ``most`` more bytes from them, says so (``dry``), and no others.
    """

    def __init__(self, real: str, most: int) -> None:
        self._real, self._most = urlsplit(real), most
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self._listening.getsockname()[1]}"
        self.narrow, self.dry = threading.Event(), threading.Event()
        self._closed = threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._do(self._accept)

    def _do(self, what: Callable[..., None], *about: object) -> None:
        thread = threading.Thread(target=what, args=about, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection((self._real.hostname, self._real.port))
                self._sockets += [near, far]
                self._do(self._pass_on, far, near, False)
                self._do(self._pass_on, near, far, True)

    def _pass_on(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if counted and self.narrow.is_set():
                    self._most -= len(data)
                    if self._most < 0:
                        self.dry.set()
                        self._closed.wait()
                        return
                target.sendall(data)

    def close(self) -> None:
        """End every connection."""
        self._closed.set()
        for each in (self._listening, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # wakes who waits for it
            each.close()
        for thread in self._threads:
            thread.join(PATIENCE)
