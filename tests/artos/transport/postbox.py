"""A messenger with a doorbell, and a wire that can be cut, for tests."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from helpers import PATIENCE

from artos.protocol.message import Message
from artos.transport.keys import Keys
from artos.transport.messenger import Messenger

Mailboxes = tuple[str, Message]


def fill(put: Callable[[], None]) -> None:
    """Put and put, until that raises."""
    for _ in range(1000):
        put()


class Postbox:
    """A messenger whose mail is kept, and can be waited for."""

    def __init__(self, make: Callable[[Callable[[], None]], Messenger]) -> None:
        self.rung = threading.Event()
        self.mail: list[Mailboxes] = []
        self.messenger = make(self.rung.set)

    def until(self, enough: Callable[[], bool], what: str) -> None:
        """Take mail until there is ``enough``."""
        end = time.monotonic() + PATIENCE
        while True:
            self.rung.clear()
            self.mail += self.messenger.take()
            if enough():
                return
            # The doorbell tells of mail; silence and errors are looked at now and then.
            self.rung.wait(0.05)
            assert time.monotonic() < end, f"waited for {what}; there is {self.mail[-5:]}"

    def wait_for(self, message: Message, sender: str = "head") -> None:
        """Until this has come."""
        self.until(lambda: (sender, message) in self.mail, str(message))

    def messages(self) -> list[Message]:
        """What came, without names."""
        return [message for _, message in self.mail]


@contextmanager
def serving(endpoint: str, keys: Keys | None = None) -> Iterator[Postbox]:
    """A head's messenger."""
    box = Postbox(lambda ring: Messenger.serve(endpoint, keys, ring))
    try:
        yield box
    finally:
        box.messenger.close(0.0)


@contextmanager
def calling(endpoint: str, keys: Keys | None = None, me: str = "w1") -> Iterator[Postbox]:
    """A worker's messenger."""
    box = Postbox(lambda ring: Messenger.connect(endpoint, keys, me, ring))
    try:
        yield box
    finally:
        box.messenger.close(0.0)


class Cable:
    """Carries TCP connections to ``port``; ``cut`` swallows all bytes, as a dead link does."""

    def __init__(self, port: int) -> None:
        self._port, self.cut, self._over = port, False, False
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._to: dict[socket.socket, socket.socket] = {}
        self.endpoint = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._carry, name="cable")
        self._thread.start()

    def drop(self) -> None:
        """Reset every connection."""
        for each in list(self._to):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Cable:
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._thread.join()
        for each in (*self._to, self._listener):
            each.close()
        self._selector.close()

    def _carry(self) -> None:
        while not self._over:
            for key, _ in self._selector.select(0.05):
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._pass_on(key.fileobj)  # type: ignore[arg-type]

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        far = socket.create_connection(("127.0.0.1", self._port))
        for one, other in ((near, far), (far, near)):
            self._to[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, near: socket.socket) -> None:
        if near not in self._to:
            return
        far = self._to[near]
        try:
            data = near.recv(1 << 16)
            if data and not self.cut:
                far.sendall(data)
        except OSError:
            data = b""
        if not data:
            for each in (near, far):
                self._selector.unregister(each)
                del self._to[each]
                each.close()
