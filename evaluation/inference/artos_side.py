"""The time from a request to its answer by another process, for observations of Pong.

``python -m evaluation.inference.artos_side --actors 8 --rounds 500`` prints the median in µs.

There are two processes on two cores. One is a server as runs have it, with trigger and engine, that
answers at once: no network is evaluated. The other one is the last of so many actors. It keeps its
core busy for a while before each request, so that the server is asleep each time, as in
``evaluation.triggers``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from artos.buffer.desk import Desk
from artos.buffer.mailbox import Board
from artos.buffer.request_block import RequestBlock
from artos.clock import SystemClock
from artos.protocol.invocations import Stop, encode
from artos.runs.plan import Site
from artos.runs.run_memory import RunMemory
from artos.runtime.answering import ServerRole
from artos.runtime.member import Line
from artos.runtime.serving import bells
from artos.specs.keys import DataKey
from artos.specs.members import ACTORS, Member
from artos.specs.servers import Server, ServerSpec
from evaluation.baselines.timing import answer
from evaluation.triggers.artos_side import SECONDS, TURNS, medians, pin, plan
from triggers import RequestTrigger
from triggers.gathering import Gathering

NAME, ROWS, CHOICES = "inference", 4, 6
SEEN = DataKey("observations", (4, 84, 84), "uint8")
SPEC = ServerSpec(NAME, (SEEN,), (DataKey("out", (CHOICES,)), DataKey("values")), ROWS)


class AtOnce(Server):
    """Has answered before it is asked."""

    def __init__(self, rows: int) -> None:
        self._out, self._values = np.zeros((rows, CHOICES), np.float32), np.zeros(rows, np.float32)

    def answer(self, asked: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Zeros for each row."""
        rows = len(asked[SEEN.name])
        return {"out": self._out[:rows], "values": self._values[:rows]}


def server_main(site: Site, actors: int) -> None:
    """The server's process."""
    pin(-1)
    board = Board.attach(site.board_path, site.members)
    rings = [board.down(Member(ACTORS, actor)).doorbell.ring for actor in range(actors)]
    gathers = Gathering(SPEC.target, RequestTrigger().encode(), _none, SystemClock())
    block = RequestBlock.attach(site.requests_path(NAME))
    role = ServerRole(AtOnce(actors * ROWS), block, gathers, lambda actor: rings[actor]())
    role.serve(Line(board, Member(NAME)))


def _none(name: str) -> Any:
    raise KeyError(name)


def measure(actors: int, rounds: int) -> dict[str, float]:
    """The median in µs of round trips of the last of so many actors."""
    asked = msgspec.structs.replace(plan(actors), servers=(SPEC,))
    with tempfile.TemporaryDirectory() as logs, RunMemory(asked, "bench", Path(logs)) as node:
        # Forked, so that it is the same program as the actor's process.
        process = multiprocessing.get_context("fork").Process(
            target=server_main, args=(node.site, actors), daemon=True
        )
        process.start()
        pin(0)
        own = msgspec.structs.replace(node.site, member=Member(ACTORS, actors - 1))
        block = RequestBlock.attach(own.requests_path(NAME))
        desk = Desk(block, actors - 1, 0, bells(asked, own)(NAME), SECONDS)
        turns = [medians(_round_trip(desk), rounds) for _ in range(TURNS)]
        node.board.down(Member(NAME)).put(encode(Stop()))
        process.join(SECONDS)
        return {"answer": statistics.median(turns) * 1e6}


def _round_trip(desk: Desk) -> Any:
    seen = np.zeros((ROWS, *SEEN.shape), np.uint8)

    def trip() -> float:
        began = SystemClock().now()
        desk(observations=seen)
        return SystemClock().now() - began

    return trip


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actors", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=500)
    options = parser.parse_args()
    answer(measure(options.actors, options.rounds), ("numpy", "msgspec"))


if __name__ == "__main__":
    main()
