"""Logs on worker nodes: passes users' requests on to the workers, and the answers back."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from artos.clock import Clock
from artos.protocol import control
from artos.transport.messenger import Messenger
from head.daemon.roster import Node
from head.daemon.run import Run

_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Asked:
    user: str
    node: str
    run: Run
    due: float


class RemoteLogs:
    """Users' pending requests for logs on worker nodes; ``messenger`` serves users and workers."""

    def __init__(self, messenger: Messenger, clock: Clock) -> None:
        self._messenger, self._clock = messenger, clock
        self._numbers = count(1)
        self._asked: dict[int, _Asked] = {}

    def request_piece(self, user: str, node: Node, run: Run, log: str, offset: int) -> None:
        """Ask a node's worker, on behalf of a user, for a piece of one of the run's logs there."""
        number = next(self._numbers)
        self._asked[number] = _Asked(user, node.name, run, self._clock.now() + _SECONDS)
        self._messenger.send(node.peer, control.ReadNodeLog(number, run.name, log, offset))

    def take_piece(self, node: str, piece: control.LogPiece) -> None:
        """Pass a worker's answer on to the user who waits for it."""
        asked = self._asked.get(piece.number)
        if asked is None or asked.node != node:
            return  # the request was given up
        del self._asked[piece.number]
        text = bytes(piece.content).decode(errors="replace")
        ended = asked.run.over and not text
        data = {"text": text, "next": piece.next, "state": asked.run.state, "ended": ended}
        answer = control.Answer(fault=piece.fault) if piece.fault else control.Answer(data)
        self._messenger.send(asked.user, answer)

    def drop_overdue(self) -> None:
        """Tell users whose worker has not answered in time."""
        now = self._clock.now()
        for number, asked in [*self._asked.items()]:
            if asked.due <= now:
                del self._asked[number]
                why = f"node {asked.node} did not answer within {_SECONDS:g} s; ask again"
                self._messenger.send(asked.user, control.Answer(fault=why))
