"""The worker nodes, and the placement of actors on them. Pure."""

from __future__ import annotations

import heapq
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import msgspec

from artos.clock import Clock
from artos.errors import Refused
from artos.pool.devices import places
from artos.protocol.control import (
    MOST_SHARING,
    MOST_SLOTS,
    PROTOCOL,
    Hello,
    Load,
)
from head.daemon.unsaved import Table, Unsaved

_MOST_GONE = 100
"""Nodes that are gone and still listed; a node with the same name replaces its entry."""
_log = logging.getLogger(__name__)
_SKEWED = 5.0
_IN_TIME = (0.5, 3.0)
_SKEW = (
    "the clock of node %s is %.0f s %s the head's: so are the times in the logs of its processes; "
    "runs do not go by it"
)
_GRACE = 1.0
"""Seconds in which a daemon that lives connects again if its connection was closed."""
_HEARD = 2.0
"""Seconds of silence before that, from which on the network may have failed, not the daemon."""
POLICIES = ("spread", "pack")
_RUN_BYTES = 512 << 20
"""What a run takes where it lives: its process, learner, evaluator and replay process."""
_RUNS_A_CORE = 16
_FEWEST_RUNS = 2


def most_runs(cores: int, memory: int) -> int:
    """How many runs a machine with so many cores and bytes of memory can carry."""
    return max(_FEWEST_RUNS, min(_RUNS_A_CORE * cores, memory // _RUN_BYTES))


class Known(msgspec.Struct, frozen=True):
    """A node as it is saved: a head that is started again waits for it."""

    name: str
    slots: int
    leaves: str = ""
    runs_per_slot: int = 1
    labels: tuple[str, ...] = ()
    shm_bytes: int = 0
    devices: str = ""


@dataclass(slots=True)
class Node:
    """One worker node."""

    name: str
    slots: int
    heard: float
    """When its daemon was last heard."""
    peer: str = ""
    """Its daemon's name on the network, "" while a restarted head waits for it."""
    memory_mb: int = 0
    alive: bool = True
    leaves: str = ""
    """Why the node gets no more actors (drained, stopped), "" if it may get some."""
    load: Load = field(default_factory=Load)
    runs_per_slot: int = 1
    labels: tuple[str, ...] = ()
    shm_bytes: int = 0
    """Shared memory for executors; 0: any number of bytes."""
    devices: str = ""
    """What learners there lease, as in ``--devices``."""
    shares: bool | None = None
    """Whether it has the head's folder of runs; None: it has not said so yet."""
    switches: bool = False
    """Whether its daemon may start processes under users' accounts."""
    clock_ahead: float = 0.0
    """Seconds by which its machine's clock is ahead of the head's, if that is worth a word."""
    loaded: float = 0.0
    """When it last said what load it has."""
    ended: float | None = None
    """When its daemon's connection was closed, if that was so and there is no other yet."""

    def carries(self, *, account: bool = False) -> bool:
        """Whether run processes may be placed here; with ``account``, those of a user's account."""
        return self.usable and bool(self.shares) and (self.switches or not account)

    @property
    def is_coming(self) -> bool:
        """Whether it may be about to say that run processes may be placed here."""
        return self.usable and self.shares is None

    @property
    def most_carried(self) -> int:
        """How many run processes may be here, by its cores and memory."""
        return most_runs(self.slots, self.memory_mb << 20)

    @property
    def usable(self) -> bool:
        """Whether actors may be placed here."""
        return self.alive and not self.leaves and self.slots > 0

    def has(self, labels: Iterable[str]) -> bool:
        """Whether it has all these labels."""
        return {*labels} <= {*self.labels}

    @property
    def known(self) -> Known:
        """What a restarted head must know of the node."""
        return Known(
            self.name, self.slots, self.leaves, self.runs_per_slot, self.labels, self.shm_bytes,
            self.devices,
        )  # fmt: skip

    @property
    def most_runs(self) -> int:
        """How many runs may have actors here; if more than ``slots``, they take turns."""
        return self.slots * self.runs_per_slot


class Roster:
    """All nodes. A node that is silent for ``deadline`` seconds is gone until it says ``Hello``.

    One whose process has ended is gone sooner: its connection is closed by the kernel.
    """

    def __init__(
        self,
        version: str,
        clock: Clock,
        deadline: float = 15.0,
        unsaved: Unsaved | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._version, self._clock, self.deadline, self._wall = version, clock, deadline, wall
        self._nodes: dict[str, Node] = {}
        self._by_peer: dict[str, Node] = {}
        self._unsaved = Unsaved() if unsaved is None else unsaved

    def __repr__(self) -> str:
        alive = sum(node.alive for node in self)
        return f"<Roster alive={alive} gone={len(self._nodes) - alive}>"

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def get(self, name: str) -> Node | None:
        """The node of that name, alive or gone."""
        return self._nodes.get(name)

    def of(self, peer: str) -> Node | None:
        """The node of this daemon, if the daemon was admitted and the node is alive."""
        return self._by_peer.get(peer)

    # -- events --------------------------------------------------------------------------------

    def admit(self, peer: str, hello: Hello) -> Node:
        """Add the node of a daemon that says ``Hello``.

        Raises:
            Refused: its version is another one, it claims more than a machine has, or a living node
                has its name; nothing has changed.
        """
        faults = [*_implausible(hello)]
        if (hello.protocol, hello.version) != (PROTOCOL, self._version):
            theirs = f"worker {hello.node} is ARTOS {hello.version} (protocol {hello.protocol})"
            ours = f"the head is ARTOS {self._version} (protocol {PROTOCOL})"
            faults.insert(0, f"{theirs}, {ours}: install the same version on both")
        known = self._nodes.get(hello.node)
        if known is not None and known.alive and known.peer not in ("", peer, hello.replaces):
            ago = self._clock.now() - known.heard
            faults.append(
                f"a worker called {hello.node} is alive (heard {ago:.1f} s ago): give this worker "
                f"another --name, or stop the other; a worker that was killed is gone after "
                f"{_GRACE:g} s, one whose machine has failed after {self.deadline:g} s"
            )
        if faults:
            raise Refused(faults)
        if old := self._nodes.pop(hello.node, None):
            self._by_peer.pop(old.peer, None)
        # A drained node stays drained if only the link was cut or the head was restarted.
        leaves = old.leaves if old and old.peer in ("", peer) else ""
        node = Node(
            hello.node, hello.slots, self._clock.now(), peer, hello.memory_mb, leaves=leaves,
            runs_per_slot=hello.runs_per_slot, labels=hello.labels, shm_bytes=hello.shm_bytes,
            devices=hello.devices,
        )  # fmt: skip
        self._by_peer[peer] = node
        self._put(node)
        return node

    def _put(self, node: Node) -> None:
        self._nodes[node.name] = node
        self._unsaved.put(Table.NODE, node.name, node.known)

    def heard(self, silent: Mapping[str, float], ended: Collection[str] = ()) -> None:
        """Note when peers were last heard; ``silent`` has the seconds since then.

        ``ended`` are those whose connection was closed and who have not connected again.
        """
        now = self._clock.now()
        for peer, seconds in silent.items():
            if node := self._by_peer.get(peer):
                node.heard = max(node.heard, now - seconds)
                if peer not in ended:
                    node.ended = None
                elif node.ended is None:
                    # One that had been silent was cut off by its network, and may come back.
                    node.ended = now if seconds < _HEARD else inf

    def load(self, peer: str, load: Load) -> None:
        """Take in the load that a daemon reports of its node."""
        if node := self._by_peer.get(peer):
            now = node.heard = self._clock.now()
            node.load, since, node.loaded = load, now - node.loaded, now
            # What comes out of time has waited for a connection, and shows an old time.
            if load.wall and _IN_TIME[0] <= since <= _IN_TIME[1]:
                self._see_clock(node, load.wall - self._wall())
            node.shm_bytes = load.shm_bytes or node.shm_bytes

    def _see_clock(self, node: Node, ahead: float) -> None:
        ahead = ahead if abs(ahead) > _SKEWED else 0.0
        if ahead and not node.clock_ahead:
            _log.warning(_SKEW, node.name, abs(ahead), "ahead of" if ahead > 0 else "behind")
        node.clock_ahead = ahead

    def leave(self, name: str, why: str) -> None:
        """Give a node no more actors; it stays until it says goodbye or falls silent."""
        node = self._nodes[name]
        node.leaves = why
        self._put(node)

    def remove(self, name: str) -> None:
        """Count a node as gone: it said goodbye, has ended, or has been silent for too long."""
        node = self._nodes[name]
        node.alive, node.load = False, Load()
        self._by_peer.pop(node.peer, None)
        self._unsaved.drop(Table.NODE, name)
        gone = sorted((n for n in self._nodes.values() if not n.alive), key=lambda n: n.heard)
        for node in gone[:-_MOST_GONE]:
            del self._nodes[node.name]

    def excuse(self, seconds: float) -> None:
        """Count no node as silent for ``seconds`` in which this process was stopped."""
        for node in self._nodes.values():
            node.heard += seconds

    def late(self) -> list[Node]:
        """Remove and return the nodes whose process has ended, or which are silent for too long."""
        now = self._clock.now()
        gone = [
            node
            for node in self._nodes.values()
            if node.alive
            and (
                node.heard < now - self.deadline
                or (node.ended is not None and node.ended < now - _GRACE)
            )
        ]
        for node in gone:
            self.remove(node.name)
        return gone

    def why_late(self, node: Node) -> str:
        """Why a node that ``late`` returned is gone."""
        closed = node.ended is not None and node.ended < inf
        return "its worker has ended" if closed else f"not heard for {self.deadline:g} s"

    def expect(self, known: Iterable[Known]) -> None:
        """Count these nodes as just heard: the head was restarted, and they may come back."""
        now = self._clock.now()
        for k in known:
            self._put(
                Node(
                    k.name, k.slots, now, leaves=k.leaves, runs_per_slot=k.runs_per_slot,
                    labels=k.labels, shm_bytes=k.shm_bytes, devices=k.devices,
                )
            )  # fmt: skip


def _implausible(hello: Hello) -> Iterator[str]:
    """Claims that no machine can meet. Without a bound, one node would begin all waiting runs."""
    if hello.slots > MOST_SLOTS:
        yield f"worker {hello.node} claims {hello.slots} slots: at most {MOST_SLOTS} are believed"
    if (learners := places(hello.devices)) > MOST_SLOTS:
        yield f"worker {hello.node} claims devices for {learners} learners: at most {MOST_SLOTS}"
    if hello.runs_per_slot > 1 and hello.slots * hello.runs_per_slot > MOST_SHARING:
        runs = f"{hello.runs_per_slot} runs for each of {hello.slots} slots"
        yield f"worker {hello.node} claims {runs}: at most {MOST_SHARING} runs share slots"


@dataclass(frozen=True, slots=True)
class Room:
    """A node that actors may be placed on."""

    name: str
    slots: int
    taken: int = 0
    """Actors of other runs there."""
    fits: float = inf
    """Actors that its memory has room for, those that are there included."""


def place(
    actors: int, here: Mapping[int, str], rooms: Sequence[Room], policy: str
) -> dict[int, str]:
    """A node for every actor that fits on one of ``rooms``; those that have a place there keep it.

    ``here`` is where actors live now: those on one of ``rooms`` stay, as many as it ``fits``.
    ``spread`` places each other actor on the node with the fewest actors per slot; ``pack`` fills
    the slots of one node after the other, nodes in use first, and spreads the remaining actors when
    all slots are full.
    """
    fits = {room.name: room.fits for room in rooms}
    kept, own = dict[int, str](), Counter[str]()
    for actor, node in here.items():
        if actor < actors and own[node] < fits.get(node, 0):
            kept[actor] = node
            own[node] += 1
    unplaced = [actor for actor in range(actors) if actor not in kept]
    if not unplaced or not rooms:
        return kept
    load = {room.name: room.taken + own[room.name] for room in rooms}
    nodes: list[str] = []
    if policy == "pack":
        for room in sorted(rooms, key=lambda room: load[room.name] == 0):
            free = min(room.slots - load[room.name], room.fits - own[room.name])
            more = max(0, int(min(len(unplaced) - len(nodes), free)))
            load[room.name] += more
            own[room.name] += more
            nodes += [room.name] * more
    # The others go to the least loaded node one by one, to the first among equals.
    queue = [((load[r.name] + 1) / r.slots, i, load[r.name]) for i, r in enumerate(rooms)]
    heapq.heapify(queue)
    while queue and len(nodes) < len(unplaced):
        _, i, taken = queue[0]
        room = rooms[i]
        if own[room.name] >= room.fits:
            heapq.heappop(queue)
            continue
        nodes.append(room.name)
        own[room.name] += 1
        heapq.heapreplace(queue, ((taken + 2) / room.slots, i, taken + 1))
    return dict(sorted((kept | dict(zip(unplaced, nodes, strict=False))).items()))


def relieved(here: Mapping[int, str], rooms: Sequence[Room]) -> dict[int, str]:
    """A node for every actor after those have moved that are better off on other ``rooms``.

    One by one, from the node with the most actors per slot, if it has more actors than slots, to
    the one with the fewest, as long as that one then has fewer per slot than the first one had.
    """
    places, slots = dict(here), {room.name: room.slots for room in rooms}
    load = {room.name: room.taken for room in rooms}
    fits = {room.name: room.fits for room in rooms}
    mine: dict[str, list[int]] = {room.name: [] for room in rooms}
    for actor, node in sorted(here.items()):
        if node in mine:
            mine[node].append(actor)
            load[node] += 1
    while crowded := [name for name, actors in mine.items() if actors and load[name] > slots[name]]:
        worst = max(crowded, key=lambda name: load[name] / slots[name])
        more = [name for name in load if len(mine[name]) < fits[name]]
        best = min(more, key=lambda name: (load[name] + 1) / slots[name], default=worst)
        if (load[best] + 1) / slots[best] >= load[worst] / slots[worst]:
            break
        actor = mine[worst].pop()
        mine[best].append(actor)
        places[actor] = best
        load[worst], load[best] = load[worst] - 1, load[best] + 1
    return places


def shares(
    slots: int, actors: Mapping[str, int], weights: Mapping[str, float] | None = None
) -> dict[str, int]:
    """Slots of a node that each run on it is expected to hold: by weight, at most its ``actors``.

    Each run gets one at least, also where runs are more than slots. The others go one by one to the
    run that has the fewest for its weight with that one (D'Hondt's method), of equal ones to that
    with the fewest actors, then the first. What one run does not need goes to the others (max-min
    fairness).
    """
    weights = weights or {}
    given = {run: min(1, wanted) for run, wanted in actors.items()}
    left = slots - sum(given.values())
    if sum(actors.values()) <= slots:
        return dict(actors)
    order = [
        ((given[run] + 1) / weights.get(run, 1.0), wanted, number, run)
        for number, (run, wanted) in enumerate(actors.items())
        if given[run] < wanted
    ]
    heapq.heapify(order)
    for _ in range(left):
        _, wanted, number, run = heapq.heappop(order)
        given[run] += 1
        if given[run] < wanted:
            key = (given[run] + 1) / weights.get(run, 1.0)
            heapq.heappush(order, (key, wanted, number, run))
    return given
