"""Episodes of actors on nodes that are being continued there, beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

import msgspec

from artos.errors import BadMessage, NotBranched
from artos.protocol.invocations import Branch
from artos.protocol.message import Message
from artos.protocol.steering import ActorBranched, BranchActor
from artos.runtime.branch_result import result
from artos.specs.members import Member
from artos.specs.unreadable import UNREADABLE
from artos.system.closing import Closing
from head.run.remote.actor_placement import ActorPlacement

_NOWHERE = "actor {} has no place at the moment, and waits for {}: ask again once it has one"
_LEAVES = "actor {} is about to leave {}: ask again once it is at its next place"
_NO_PROCESS = "actor {} has no process on {} at the moment: ask again once it has one"
_GONE = "its node {} is gone ({}): ask again once actor {} is at its next place"
_OVER = "the run ended before that"


class _Result(msgspec.Struct):
    """What has to be in a result, whatever else is."""

    fault: str
    children: list[dict[str, object]]


@dataclass(frozen=True)
class _Asked:
    """An order that a node has and has not answered."""

    node: str
    member: Member
    order: Branch
    tell: Callable[[bytes], None]


class RemoteBranches(Closing):
    """Hands orders to branch to the executors of actors, and tells what comes of each, once.

    ``unplaced`` says what an actor without a place waits for, ``weights`` reads those that an order
    names. An executor answers each order that reaches it, also when the actor leaves; what it
    cannot answer any more is answered here.
    """

    def __init__(
        self,
        actors: Mapping[Member, ActorPlacement],
        unplaced: Callable[[Member], str],
        send: Callable[[str, Message], None],
        weights: Callable[[Branch], bytes],
    ) -> None:
        self._actors, self._unplaced, self._send = actors, unplaced, send
        self._weights = weights
        self._numbers = count(1)
        self._asked: dict[int, _Asked] = {}

    def ask(self, member: Member, order: Branch, tell: Callable[[bytes], None]) -> None:
        """Have the episode of an actor continued where it lives; ``tell`` what came of it.

        Raises:
            NotBranched: it has no place or no process now, or is about to leave.
            NotBranched, CheckpointFault: the weights are too large to be sent, or damaged.
        """
        actor = self._actors[member]
        if not actor.is_placed:
            raise NotBranched(_NOWHERE.format(actor.number, self._unplaced(member)))
        if actor.is_leaving:
            raise NotBranched(_LEAVES.format(actor.number, actor.node))
        if not actor.has_process:
            raise NotBranched(_NO_PROCESS.format(actor.number, actor.node))
        content = self._weights(order) if order.weights else b""
        number = next(self._numbers)
        self._asked[number] = _Asked(actor.node, member, order, tell)
        self._send(actor.node, BranchActor(member, number, order, content))

    def heard(self, node: str, message: ActorBranched) -> None:
        """An executor has answered an order.

        Raises:
            BadMessage: it was not given any of this number, or what it says cannot be read.
        """
        asked = self._asked.get(message.number)
        if asked is None or asked.node != node:
            raise BadMessage(f"nobody has asked {node} for branch {message.number}")
        del self._asked[message.number]
        data = bytes(message.content)
        try:
            msgspec.json.decode(data, type=_Result)
        except UNREADABLE as error:
            asked.tell(result(asked.member.rank, asked.order, f"what {node} says of it is damaged"))
            raise BadMessage(f"the result of branch {message.number}: {error}") from error
        asked.tell(data)

    def lost(self, node: str, why: str) -> None:
        """A node, or its executor, is gone."""
        for number, asked in tuple(self._asked.items()):
            if asked.node == node:
                self._fail(number, _GONE.format(node, why, asked.member.rank))

    def close(self) -> None:
        """The run is over: whoever still waits is told so."""
        for number in tuple(self._asked):
            self._fail(number, _OVER)

    def _fail(self, number: int, fault: str) -> None:
        asked = self._asked.pop(number)
        asked.tell(result(asked.member.rank, asked.order, fault))

    def __repr__(self) -> str:
        return f"<RemoteBranches {len(self._asked)} under way>"
