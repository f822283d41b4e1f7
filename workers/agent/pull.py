"""Weights on their way in: pulled once for all actors of a site, whenever there are newer ones."""

from __future__ import annotations

from collections.abc import Callable, Container

from artos.clock import Clock
from artos.errors import BadMessage
from artos.faults import Faults
from artos.protocol import codec
from artos.protocol.data import Pull, Weights
from artos.protocol.message import Message
from artos.system.closing import Closing
from artos.transport.counters import Counters
from artos.transport.sockets import Socket
from workers.agent.link import Link
from workers.agent.weight_receiver import Assembly


class Pulling(Closing):
    """A long pull: asks for newer weights, gets them when there are any, and asks again.

    ``published`` is called when a new version is there.
    """

    def __init__(
        self,
        opens: Callable[[], Socket],
        assembly: Assembly,
        published: Callable[[], None],
        clock: Clock,
        counters: Counters,
        faults: Faults,
    ) -> None:
        self._assembly, self._published, self._counters = assembly, published, counters
        self.link = Link(opens, clock, self._pull, self._hear, counters, faults)

    def _pull(self) -> None:
        self._assembly.drop()
        self.link.send(codec.encode(Pull(self._assembly.have)))

    def turn(self, ready: Container[object]) -> None:
        """Take in what came. Silence means only that the learner is at work."""
        self.link.turn(ready, waits=False)

    def _hear(self, message: Message) -> None:
        if not isinstance(message, Weights):
            raise BadMessage(f"{type(message).__name__} is no answer to a Pull")
        self._counters.add("weights", len(message.content))
        had = self._assembly.have
        if not self._assembly.take(message):
            return
        self._pull()
        if self._assembly.have == had:
            raise BadMessage(f"weights of version {message.version} came damaged")
        self._published()

    def close(self) -> None:
        """Hang up at once."""
        self.link.close()
