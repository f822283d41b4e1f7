"""A TCP relay in a thread, for links that break: it can be cut, and it can hold its breath."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress

from artos.system.closing import Closing

_CHUNK = 1 << 16


class Relay(Closing):
    """Listens at ``endpoint`` and passes bytes on to and from ``target``, both ``tcp://IP:PORT``."""

    def __init__(self, target: str) -> None:
        host, _, port = target.removeprefix("tcp://").rpartition(":")
        self._target = (host, int(port))
        self._door = socket.create_server(("127.0.0.1", 0))
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._lock, self._over = threading.Lock(), False
        self._flows = threading.Event()
        self._flows.set()
        self.passed = 0
        self._thread = threading.Thread(target=self._run, name="relay")
        self._thread.start()

    @property
    def endpoint(self) -> str:
        """Where to connect to."""
        return "tcp://{}:{}".format(*self._door.getsockname())

    def cut(self) -> None:
        """Break every connection there is; new ones are let through."""
        with self._lock:
            self._hang_up()

    def hold(self) -> None:
        """Pass nothing on; connections stay, as far as anybody can tell."""
        with self._lock:
            self._flows.clear()

    def resume(self) -> None:
        """Pass on again."""
        self._flows.set()

    def _run(self) -> None:
        while not self._over:
            self._flows.wait()
            with self._lock:
                watched = [self._door, *self._pairs]
            with suppress(ValueError, OSError):  # cut while looking
                for ready in select.select(watched, [], [], 0.02)[0]:
                    with self._lock:
                        if self._flows.is_set():
                            self._accept() if ready is self._door else self._pass(ready)

    def _accept(self) -> None:
        near, _ = self._door.accept()
        try:
            far = socket.create_connection(self._target, 1.0)
        except OSError:
            near.close()
            return
        self._pairs |= {near: far, far: near}

    def _pass(self, near: socket.socket) -> None:
        far = self._pairs.get(near)
        if far is None:
            return
        try:
            data = near.recv(_CHUNK)
            far.sendall(data)
            self.passed += len(data)
        except OSError:
            data = b""
        if not data:
            for end in (near, far):
                self._pairs.pop(end, None)
                end.close()

    def _hang_up(self) -> None:
        for end in self._pairs:
            end.close()
        self._pairs.clear()

    def close(self) -> None:
        """Hang up and end."""
        self._over = True
        self._flows.set()
        self._thread.join()
        self._hang_up()
        self._door.close()
