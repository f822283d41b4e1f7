"""How the head talks to run processes: on its own machine by ipc, on worker nodes by TCP."""

from __future__ import annotations

import re

from artos.protocol.message import Message
from artos.transport.messenger import Messenger
from artos.transport.roles import KeyRole, holder_of
from head.daemon.run import Run


class RunLines:
    """Sends to a run's present process, whichever messenger has it as a peer."""

    def __init__(self, inside: Messenger, outside: Messenger) -> None:
        self._inside, self._outside = inside, outside

    def __repr__(self) -> str:
        return f"<RunLines {self._inside.endpoint} {self._outside.endpoint}>"

    def send(self, run: Run, message: Message) -> None:
        """Queue a message.

        Raises:
            MailboxFull: the process has taken nothing for too long.
        """
        line, peer = self._to(run)
        line.send(peer, message)

    def forget(self, run: Run) -> None:
        """Drop what is queued for a process that has ended."""
        line, peer = self._to(run)
        line.forget(peer)

    def _to(self, run: Run) -> tuple[Messenger, str]:
        if not run.carrier:
            return self._inside, run.name
        return self._outside, f"run:{run.name}/{run.epoch}"


def of_run(peer: str) -> bool:
    """Whether a peer is a run process on a worker node."""
    holder = holder_of(peer)
    return holder is not None and holder.role is KeyRole.RUN


def process_of(peer: str) -> tuple[str, int]:
    """Run and epoch of a run process on a worker node; its key vouches for the run only."""
    name, _, epoch = peer.removeprefix("run:").partition("/")
    return name, int(epoch) if re.fullmatch(r"[0-9]{1,18}", epoch) else 0
