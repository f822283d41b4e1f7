"""Weights from a head to its actors: on this machine, or on several nodes over ARTOS's data path.

``python -m evaluation.pipelining.artos_weights local`` or ``head|worker --workers 2``. A worker
handles weights as an executor does: its transfer agent pulls a new version into the node's model
block, and every actor, a process with the real role, is told to bind it. ``first_use_s`` is the
time from publishing until all actors of all nodes have bound the weights.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from artos.errors import DeadlineExceeded
from artos.protocol.invocations import Done, Failed, Invoke, decode_from_member
from artos.runs.plan import Plan
from artos.runs.run_memory import RunMemory
from artos.specs.members import ACTORS, Member
from evaluation.baselines.timing import answer
from evaluation.pipelining.artos_side import GO, agent, meeting_of, replay, welcomed
from evaluation.pipelining.iterations import Lap, iterate
from evaluation.pipelining.prefilled import Mailboxes, members
from evaluation.pipelining.rounds_plan import PARAMS, plan, weights
from evaluation.pipelining.shared import SECONDS, connected, parser
from triggers.table import Table
from triggers.wiring import cache_plan, with_transfer

_PORT, _BOUND = 7001, b"b"

Floats = NDArray[np.float32]


def workload(options: argparse.Namespace) -> tuple[Plan, Table]:
    """The workload as it runs on a cluster; rounds have one step, as nothing is sampled."""
    return with_transfer(*plan(options.actors, 1, weights(options.actors + 1)))


def values() -> Floats:
    """Weights to publish."""
    return np.random.default_rng(0).standard_normal(PARAMS, np.float32)


def publish(node: RunMemory, params: Floats) -> int:
    """Publish these weights; returns their version."""
    slot = node.weights.allocate()
    np.copyto(slot.arrays["params"], params)
    node.weights.commit(slot, node.weights.version + 1)
    return node.weights.version


# -- the actors of a node ----------------------------------------------------------------------


def bind(node: RunMemory, boxes: Mailboxes, mine: Sequence[Member], version: int) -> None:
    """Have all these members bind the newest version, and wait until they have.

    Raises:
        DeadlineExceeded: a member did not.
    """
    for member in mine:
        boxes.passers[member].pass_message(Invoke(version + 1, "actors.sync", "sync"))
    left = set(mine)
    while left:
        if not node.board.doorbell.wait(SECONDS):
            raise DeadlineExceeded(f"members {sorted(left)} to bind version {version}", SECONDS)
        for member in node.board.changed():
            if node.board.members.role(member).samples and _has_bound(node, member, version):
                left.discard(member)


def _has_bound(node: RunMemory, member: Member, version: int) -> bool:
    bound = False
    while (data := node.board.up(member).take()) is not None:
        message = decode_from_member(data)
        if isinstance(message, Failed):
            raise SystemExit(message.trace)
        bound |= isinstance(message, Done) and message.version >= version
    return bound


# -- roles -------------------------------------------------------------------------------------


def worker(options: argparse.Namespace) -> None:
    """Have this node's actors bind every new version, and tell the head when all have."""
    here = cache_plan(*workload(options))
    mine = [Member(ACTORS, a) for a in range(options.number, options.actors, options.workers)]
    with (
        tempfile.TemporaryDirectory() as logs,
        RunMemory(here, "bench", Path(logs)) as node,
        connected(options.head, _PORT) as line,
        members(node, mine) as boxes,
        agent(node, options, meeting_of(line)),
    ):
        line.sendall(GO)
        seen = -1
        while True:
            while node.weights.version <= seen:
                if not node.board.doorbell.wait(SECONDS):
                    raise DeadlineExceeded(f"a version after {seen}", SECONDS)
                node.board.changed()
            seen = node.weights.version
            bind(node, boxes, mine, seen)
            line.sendall(_BOUND)


def head(options: argparse.Namespace) -> dict[str, float]:
    """Publish versions, and wait until all nodes report that their actors have bound them."""
    with (
        tempfile.TemporaryDirectory() as folder,
        RunMemory(workload(options)[0], "bench", Path(folder, "logs")) as node,
        replay(node, options, Path(folder)) as (host, meeting),
    ):
        lines = welcomed(options, meeting)

        def used() -> None:
            host.nudge()
            for line in lines:
                if line.recv(1) != _BOUND:
                    raise SystemExit("a worker ended")

        return iterate(partial(_lap, node, values(), used), options.iterations, marked=True)


def local(options: argparse.Namespace) -> dict[str, float]:
    """Publish versions to actors of this machine."""
    mine = [Member(ACTORS, actor) for actor in range(options.actors)]
    with (
        tempfile.TemporaryDirectory() as logs,
        RunMemory(workload(options)[0], "bench", Path(logs)) as node,
        members(node, mine) as boxes,
    ):

        def used() -> None:
            bind(node, boxes, mine, node.weights.version)

        return iterate(partial(_lap, node, values(), used), options.iterations, marked=False)


def _lap(node: RunMemory, params: Floats, used: Callable[[], None]) -> Lap:
    began = time.perf_counter()
    publish(node, params)
    used()
    return {"first_use_s": time.perf_counter() - began}


def main() -> None:
    """Play one role."""
    torch.set_num_threads(1)
    options = parser(__doc__)
    options.add_argument("--off", action="append", default=[], choices=("curve",))
    chosen: Any = options.parse_args()
    if chosen.role == "worker":
        worker(chosen)
    else:
        found = head(chosen) if chosen.role == "head" else local(chosen)
        answer(found, ("numpy", "torch", "pyzmq"))


if __name__ == "__main__":
    main()
