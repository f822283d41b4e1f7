"""Logs on worker nodes: passes users' requests on to the workers, and the answers back."""

from __future__ import annotations

import msgspec

from artos.protocol import control
from artos.transport.messenger import Messenger
from head.daemon.pending import Pending
from head.daemon.roster import Node
from head.daemon.run import Run


class RemoteLogs:
    """Asks worker nodes for logs; ``messenger`` serves users and workers."""

    def __init__(self, messenger: Messenger, pending: Pending) -> None:
        self._messenger, self._pending = messenger, pending

    def request_piece(
        self, user: str, node: Node, run: Run, log: str, wanted: control.ReadLogs
    ) -> None:
        """Ask a node's worker, on behalf of a user, for a piece of one of the run's logs there."""
        number = self._pending.add(user, f"node {node.name}", run, wanted.number)
        self._messenger.send(node.peer, control.ReadNodeLog(number, run.name, log, wanted.offset))

    def take_piece(self, node: str, piece: control.LogPiece) -> None:
        """Pass a worker's answer on to the user who waits for it."""
        asked = self._pending.take(piece.number, f"node {node}")
        if asked is None:
            return
        text = bytes(piece.content).decode(errors="replace")
        ended = asked.run.over and not text
        data = {"text": text, "next": piece.next, "state": asked.run.state, "ended": ended}
        answer = control.Answer(fault=piece.fault) if piece.fault else control.Answer(data)
        self._messenger.send(asked.user, msgspec.structs.replace(answer, number=asked.number))
