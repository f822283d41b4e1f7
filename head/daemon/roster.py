"""The worker nodes: who is there, what it has, who has not been heard of for too long. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from artos.clock import Clock
from artos.errors import Refused
from artos.protocol.control import PROTOCOL, Hello, Load

_MOST_GONE = 100
"""Nodes that are gone and still listed; a name used again takes its old line."""


class Known(msgspec.Struct, frozen=True):
    """What outlives the head: a node it had, to be waited for when the head is back."""

    name: str
    slots: int
    leaves: str = ""


@dataclass(slots=True)
class Node:
    """One worker node. ``peer`` is its daemon, "" while a head that was restarted waits for it.

    ``leaves`` says why it is given no more actors (drained, stopped), "" if it may have some.
    """

    name: str
    slots: int
    heard: float
    peer: str = ""
    memory_mb: int = 0
    alive: bool = True
    leaves: str = ""
    load: Load = field(default_factory=Load)

    @property
    def usable(self) -> bool:
        """Whether actors may be placed here."""
        return self.alive and not self.leaves and self.slots > 0


class Roster:
    """Which nodes there are. Who is not heard for ``deadline`` seconds is gone until it greets."""

    def __init__(self, version: str, clock: Clock, deadline: float = 15.0) -> None:
        self._version, self._clock, self.deadline = version, clock, deadline
        self._nodes: dict[str, Node] = {}
        self._by_peer: dict[str, Node] = {}

    def __repr__(self) -> str:
        alive = sum(node.alive for node in self)
        return f"<Roster alive={alive} gone={len(self._nodes) - alive}>"

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def get(self, name: str) -> Node | None:
        """The node of that name, alive or gone."""
        return self._nodes.get(name)

    def of(self, peer: str) -> Node | None:
        """The node whose daemon this is, if it was admitted and is alive."""
        return self._by_peer.get(peer)

    # -- events --------------------------------------------------------------------------------

    def admit(self, peer: str, hello: Hello) -> Node:
        """A daemon greets.

        Raises:
            Refused: it is of another version, or a living node has its name; nothing changed.
        """
        if faults := [*self._foreign(hello), *self._taken(peer, hello)]:
            raise Refused(faults)
        if old := self._nodes.pop(hello.node, None):
            self._by_peer.pop(old.peer, None)
        # A node that is drained stays so when only the link or the head was away.
        leaves = old.leaves if old and old.peer in ("", peer) else ""
        node = Node(
            hello.node, hello.slots, self._clock.now(), peer, hello.memory_mb, leaves=leaves
        )
        self._nodes[node.name] = self._by_peer[peer] = node
        return node

    def _foreign(self, hello: Hello) -> list[str]:
        if (hello.protocol, hello.version) == (PROTOCOL, self._version):
            return []
        return [
            f"worker {hello.node} is ARTOS {hello.version} (protocol {hello.protocol}), the head "
            f"is ARTOS {self._version} (protocol {PROTOCOL}): install the same version on both"
        ]

    def _taken(self, peer: str, hello: Hello) -> list[str]:
        node = self._nodes.get(hello.node)
        if node is None or not node.alive or node.peer in ("", peer, hello.replaces):
            return []
        ago = self._clock.now() - node.heard
        return [
            f"a worker called {hello.node} is alive (heard of {ago:.1f} s ago): give this one "
            f"another --name, or stop that one; one that was killed is gone after "
            f"{self.deadline:g} s"
        ]

    def heard(self, silent: Mapping[str, float]) -> None:
        """Seconds since each peer was last heard."""
        now = self._clock.now()
        for peer, seconds in silent.items():
            if node := self._by_peer.get(peer):
                node.heard = max(node.heard, now - seconds)

    def load(self, peer: str, load: Load) -> None:
        """A daemon says how busy its node is."""
        if node := self._by_peer.get(peer):
            node.heard, node.load = self._clock.now(), load

    def leave(self, name: str, why: str) -> None:
        """The node is to have no actors any more; it stays until it says goodbye or is silent."""
        self._nodes[name].leaves = why

    def remove(self, name: str) -> None:
        """The node said goodbye."""
        node = self._nodes[name]
        node.alive, node.load = False, Load()
        self._by_peer.pop(node.peer, None)
        self._forget_the_oldest()

    def late(self) -> list[Node]:
        """Nodes that have been silent for too long; from now on they are gone."""
        limit = self._clock.now() - self.deadline
        gone = [node for node in self._nodes.values() if node.alive and node.heard < limit]
        for node in gone:
            self.remove(node.name)
        return gone

    def _forget_the_oldest(self) -> None:
        gone = sorted((n for n in self._nodes.values() if not n.alive), key=lambda n: n.heard)
        for node in gone[:-_MOST_GONE]:
            del self._nodes[node.name]

    # -- what outlives the head ----------------------------------------------------------------

    def known(self) -> tuple[Known, ...]:
        """The nodes that are alive."""
        return tuple(Known(n.name, n.slots, n.leaves) for n in self._nodes.values() if n.alive)

    def expect(self, known: Iterable[Known]) -> None:
        """Wait for these as if they had just been heard of: the head is back, they may be too."""
        now = self._clock.now()
        self._nodes |= {k.name: Node(k.name, k.slots, now, leaves=k.leaves) for k in known}
