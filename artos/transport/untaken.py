"""Messages that came in and were not taken yet; holders of keys take turns. Pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from artos.protocol.message import Message, Restarted

_MOST = 10_000  # messages of one holder; it must send any more of them again
_MOST_BYTES = 1 << 26
_MOST_OF_ALL = 1 << 28  # bytes; beyond that a holder may have one message here


@dataclass(slots=True)
class _Queue:
    """Messages of one holder with the peer's name and their size, and the sum of the sizes."""

    messages: deque[tuple[str, Message, int]] = field(default_factory=deque)
    size: int = 0


class Untaken:
    """A queue for each holder of a key, however many connections it has.

    So no holder waits longer because another one sends a lot, and none fills the memory.
    """

    def __init__(self) -> None:
        self._queues: OrderedDict[str, _Queue] = OrderedDict()  # in the order of their turns
        self._count = self._size = 0

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<Untaken {self._count} of {[*self._queues]}>"

    def has_room(self, name: str) -> bool:
        """Whether the holder that a peer belongs to may say more."""
        if (queue := self._queues.get(_holder(name))) is None:
            return True
        bytes_left = queue.size < _MOST_BYTES and self._size < _MOST_OF_ALL
        return bytes_left and len(queue.messages) < _MOST

    def put(self, name: str, message: Message, size: int = 0) -> None:
        """A message of ``size`` bytes came in."""
        queue = self._queues.setdefault(_holder(name), _Queue())
        if queue.messages and isinstance(message, Restarted):
            last, said, _ = queue.messages[-1]
            if (last, said) == (name, message):  # restarted twice: once is all there is to know
                return
        queue.messages.append((name, message, size))
        queue.size += size
        self._size += size
        self._count += 1

    def take(
        self, most: int | None = None, hears: Callable[[str], bool] = lambda name: True
    ) -> list[tuple[str, Message]]:
        """Messages with their senders: one of each holder in turn, ``most`` of them at most.

        A holder whose next message is of a peer that does not ``hear`` is passed over.
        """
        taken: list[tuple[str, Message]] = []
        passed = 0
        while passed < len(self._queues) and (most is None or len(taken) < most):
            holder, queue = self._queues.popitem(last=False)
            name, message, size = queue.messages[0]
            if hears(name):
                queue.messages.popleft()
                queue.size -= size
                self._size -= size
                self._count -= 1
                taken.append((name, message))
                passed = 0
            else:
                passed += 1
            if queue.messages:
                self._queues[holder] = queue
        return taken


def _holder(name: str) -> str:
    """The holder's name on a socket, which names its connections behind a ``/``."""
    return name.partition("/")[0]
