"""What the scheduler has the head daemon do."""

from __future__ import annotations

from dataclasses import dataclass

from artos.protocol.message import Message
from head.daemon.roster import Node
from head.daemon.run import Run


@dataclass(frozen=True, slots=True)
class Begin:
    """Start the run's process."""

    run: Run


@dataclass(frozen=True, slots=True)
class Tell:
    """Send the run's process a message."""

    run: Run
    message: Message


@dataclass(frozen=True, slots=True)
class Finish:
    """Have the run save and end."""

    run: Run


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill the run's process."""

    run: Run
    why: str


@dataclass(frozen=True, slots=True)
class Order:
    """Send a worker daemon a message."""

    node: Node
    message: Message


Effect = Begin | Tell | Finish | Kill | Order
