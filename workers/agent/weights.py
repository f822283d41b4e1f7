"""Fetches weights: pulled once for all actors of an executor, checked, and published."""

from __future__ import annotations

from collections.abc import Callable, Container

import numpy as np
from xxhash import xxh3_64_intdigest

from artos.buffer.object_region import ObjectRegion, ObjectSlot
from artos.buffer.past_versions import KeepingRegion, past_versions
from artos.clock import Clock
from artos.errors import BadMessage
from artos.protocol import codec
from artos.protocol.data import Pull, Weights
from artos.protocol.message import Message
from artos.system.closing import Closing
from artos.system.faults import Faults
from artos.transport.bfloat16 import BFLOAT16, widen
from artos.transport.counters import Counters
from artos.transport.sockets import Socket
from workers.agent.experience import Link


class Assembly:
    """Puts the pieces of a version together, one version after the other.

    A version becomes visible once its last piece is here and every checksum was right; an
    incomplete or damaged version is dropped as a whole.
    """

    def __init__(self, region: ObjectRegion) -> None:
        self._region = region
        self._arrays = [array.name for array in region.spec.public]
        self._slot: ObjectSlot | None = None
        self._version, self._at, self._next = -1, 0, 0

    @property
    def have(self) -> int:
        """The version that is published here."""
        return self._region.version

    @property
    def past(self) -> tuple[int, ...]:
        """The past versions that are kept here."""
        return past_versions(self._region)

    def add(self, piece: Weights) -> bool:
        """Add a piece; True if its version is now published, or was dropped as damaged.

        So is one whose past is not here: a past version was damaged.
        """
        if begins := (piece.array, piece.start) == (self._arrays[0], 0):
            self._at = self._next = 0
            self._version = piece.version if self._wants(piece) else -1
        expected = self._version, self._arrays[self._at], self._next
        if (piece.version, piece.array, piece.start) != expected:
            return False  # a piece of a version that is not wanted or was dropped
        lacks = begins and not {*piece.past} <= {self.have, *self.past}
        if lacks or not self._fits(piece):
            self.drop()
            return True
        self._next += len(piece.content)
        if self._next < piece.total:
            return False
        if self._at + 1 < len(self._arrays):
            self._at, self._next = self._at + 1, 0
            return False
        assert self._slot is not None
        slot, self._slot = self._slot, None
        self.drop()
        if piece.kept:
            assert isinstance(self._region, KeepingRegion)
            self._region.keep(slot, piece.version)
            return False
        self._region.commit(slot, piece.version)
        return True

    def _wants(self, piece: Weights) -> bool:
        if piece.kept:
            return piece.version not in self.past and isinstance(self._region, KeepingRegion)
        return piece.version > self.have

    def drop(self) -> None:
        """Forget the pieces of an incomplete version: the rest will not come."""
        self._version = -1

    def _fits(self, piece: Weights) -> bool:
        content = piece.content
        if xxh3_64_intdigest(content) != piece.checksum:
            return False
        if self._slot is None:
            self._slot = self._region.allocate()
        target = self._slot.arrays[piece.array].reshape(-1)
        size = 2 if piece.dtype == BFLOAT16 else target.itemsize
        first, count = piece.start // size, len(content) // size
        whole = piece.total == target.size * size and len(content) == count * size
        if not whole or first + count > target.size:
            return False
        part = target[first : first + count]
        if piece.dtype == BFLOAT16:
            widen(np.frombuffer(content, np.uint16), part)
        else:
            part[:] = np.frombuffer(content, target.dtype)
        return True


class Pulling(Closing):
    """A long pull: asks for a learner's newer weights, gets them once they are there, asks again.

    ``published`` is called when a new version is published here.
    """

    def __init__(
        self,
        opens: Callable[[], Socket],
        learner: str,
        assembly: Assembly,
        published: Callable[[], None],
        clock: Clock,
        counters: Counters,
        faults: Faults,
    ) -> None:
        self._learner, self._assembly = learner, assembly
        self._published, self._counters = published, counters
        self.link = Link(opens, clock, self._pull, self._handle, counters, faults)

    def _pull(self) -> None:
        self._assembly.drop()
        self.link.send(codec.encode(Pull(self._assembly.have, self._assembly.past, self._learner)))

    def turn(self, ready: Container[object]) -> None:
        """Read the messages that came. Silence means only that the learner is at work."""
        self.link.turn(ready, waits=False)

    def _handle(self, message: Message) -> None:
        if not isinstance(message, Weights):
            raise BadMessage(f"{type(message).__name__} is no answer to a Pull")
        self._counters.add("weights", len(message.content))
        had = self._assembly.have
        if not self._assembly.add(message):
            return
        self._pull()
        if self._assembly.have == had:
            raise BadMessage(f"weights of version {message.version} arrived damaged")
        self._published()

    def close(self) -> None:
        """Close the connection at once."""
        self.link.close()
