"""A simulated run process: sends the messages of a run process, and records the head's messages.

The head starts it in place of ``head.run``; it never ends by itself.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from artos.protocol import control
from artos.protocol.run_state import RUNNING
from artos.runs.orders import RunOrder, read_order
from artos.runtime.loop import Waker
from artos.system.child import begin_member
from artos.transport.messenger import HEAD, Messenger

MODULE = "evaluation.control_plane.fleet_run"
_FILE = "placements.jsonl"
_NEWS_SECONDS = 0.5


class Placement(msgspec.Struct, frozen=True):
    """A message of the head: time (monotonic seconds), number of placed actors, lost nodes."""

    at: float
    actors: int
    gone: tuple[str, ...] = ()


def read(folder: Path) -> list[Placement]:
    """The placements recorded so far by the run in this folder."""
    try:
        lines = (folder / _FILE).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    return [msgspec.json.decode(line, type=Placement) for line in lines]


def serve(order: RunOrder, head: Messenger, waker: Waker) -> None:
    """Act as the run for as long as the head lives."""
    actors = int(order.request["settings"]["actors"])
    head.send(HEAD, control.RunUp(order.run, order.epoch, os.getpid(), b"{}", "", "", "", actors))
    folder = Path(order.folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _FILE).open("ab", buffering=0) as notes:
        while True:
            waker.wait(_NEWS_SECONDS)
            for _, message in head.take():
                if isinstance(message, control.Placed):
                    told = Placement(time.monotonic(), len(message.actors), message.gone)
                    notes.write(msgspec.json.encode(told) + b"\n")
            head.send(HEAD, control.RunNews(order.run, RUNNING))


def main(arguments: Sequence[str]) -> None:
    """Run until killed."""
    begin_member()
    order = read_order(Path(arguments[0]), RunOrder)
    with Waker() as waker, Messenger.connect(order.head, None, order.run, waker.ring) as head:
        serve(order, head, waker)


if __name__ == "__main__":
    main(sys.argv[1:])
