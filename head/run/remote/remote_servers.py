"""The servers of a run on a cluster: one of each name beside the actors of each node."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from artos.errors import BadMessage
from artos.protocol.invocations import Failed, FromMember, Ready
from artos.protocol.message import Message
from artos.protocol.steering import ActorReport, Died, End, Start
from artos.specs.members import Member
from artos.system.exit_report import ExitReport

_READY = Ready(0.0)
"""Where the last that the run waited for was on a node that is gone."""


@dataclass
class _Node:
    """What is known of the servers of one node."""

    terms: dict[Member, int] = field(default_factory=dict)
    """How often each was started there."""
    up: set[Member] = field(default_factory=set)
    """Those that have a process there."""
    ready: set[Member] = field(default_factory=set)


class RemoteServers:
    """The servers' part of ``Processes``: the run knows a server as one member, on all nodes.

    It is ready once it is ready on each node, and dies when it dies on one of them; then it is
    started again where it has no process. ``send`` sends a message to a node's executor.
    """

    def __init__(self, servers: Sequence[Member], send: Callable[[str, Message], None]) -> None:
        self._servers, self._send = servers, send
        self._nodes: dict[str, _Node] = {}
        self._awaited: set[Member] = set()  # the run does not know yet that they are ready
        self._reports: deque[tuple[Member, FromMember | ExitReport]] = deque()

    def __contains__(self, member: Member) -> bool:
        return member in self._servers

    def unplaced(self, member: Member) -> str:
        """What a server waits for while no node has actors; "" for all other members."""
        return "a node with actors" if member in self and not self._nodes else ""

    # -- nodes ---------------------------------------------------------------------------------

    def joined(self, node: str, restarting: Callable[[Member], None]) -> None:
        """An executor is warm: servers come before the actors that ask them.

        ``restarting`` tells the run that a member is being started.
        """
        self._nodes[node] = _Node()
        for member in self._servers:
            self._start(node, member)
            self._awaited.add(member)
            restarting(member)

    def left(self, node: str) -> None:
        """A node, or its executor, is gone, and its servers with it; others need not wait."""
        if self._nodes.pop(node, None) is None:
            return
        for member in self._servers:
            self._look_if_ready(member)

    # -- Processes -----------------------------------------------------------------------------

    def start(self, member: Member) -> None:
        """Start it on each node where it has no process."""
        for name, node in self._nodes.items():
            if member not in node.up:
                self._start(name, member)
        self._look_if_ready(member)  # its node may be gone by now

    def end(self, member: Member) -> None:
        """Kill it where it is not ready; where it is, it goes on."""
        for name, node in self._nodes.items():
            if member in node.up - node.ready:
                node.up.discard(member)
                self._send(name, End(member))

    def _start(self, name: str, member: Member) -> None:
        node = self._nodes[name]
        node.up.add(member)
        node.terms[member] = node.terms.get(member, 0) + 1
        self._send(name, Start(member, node.terms[member], 0))

    # -- reports -------------------------------------------------------------------------------

    def heard(self, name: str, message: ActorReport | Died, actors: tuple[int, ...] = ()) -> None:
        """The executor of a node with these ``actors`` says what a server says, or its death.

        Raises:
            BadMessage: no server reports this.
        """
        node, member = self._nodes.get(name), message.member
        if node is None or node.terms.get(member) != message.term or member not in node.up:
            return  # of a process that was ended
        match message:
            case ActorReport(told=Ready() as told):
                node.ready.add(member)
                self._look_if_ready(member, told)
                return
            case ActorReport(told=Failed() as told):
                trace = f"on node {name}: {told.trace}"
                death = ExitReport(trace, told.step, not told.others, told.fatal, actors)
            case Died():
                why = f"on node {name}: {message.why}"
                death = ExitReport(why, message.step, message.own, message.fatal, actors)
            case _:
                raise BadMessage(f"{member} answers actors, and nobody invokes it")
        node.up.discard(member)
        node.ready.discard(member)
        self._awaited.add(member)
        self._reports.append((member, death))

    def reports(self) -> Iterator[tuple[Member, FromMember | ExitReport]]:
        """What the run is to know, oldest first; each is returned once."""
        while self._reports:
            yield self._reports.popleft()

    def _look_if_ready(self, member: Member, told: Ready = _READY) -> None:
        everywhere = all(member in node.ready for node in self._nodes.values())
        if self._nodes and everywhere and member in self._awaited:
            self._awaited.discard(member)
            self._reports.append((member, told))

    def __repr__(self) -> str:
        return f"<RemoteServers {', '.join(map(str, self._servers))} on {', '.join(self._nodes)}>"
