"""Weights from a head to the actors of several nodes, by our own replay process and agents.

``python -m evaluation.weights_ours head|worker --workers 2``. A worker is what a site is to
weights: its agent pulls a new version into the node's model block, and every actor, a process with
the real role, is told to bind it. ``first_use_s`` is from publishing until all actors of all nodes
have.
"""

from __future__ import annotations

import argparse
import socket
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from artos.buffer.board import LEARNER, actor_member
from artos.errors import DeadlineExceeded
from artos.messages import Done, Failed, Invoke, decode_from_member
from artos.plan import Plan
from artos.runtime.build_role import MODEL
from deploy.node import Node
from evaluation.handover_ours import CLOCKS, Mailboxes, members
from evaluation.moving_ours import GO, agent, meeting_of, replay, welcomed
from evaluation.rivals.iterations import Lap, iterate
from evaluation.rivals.moving import SECONDS, connected, parser
from evaluation.rivals.timing import answer
from evaluation.rounds_plan import plan, weights
from head.replay_host import ReplayHost
from triggers.table import Table
from triggers.wiring import cache_plan, with_transfer

_PORT, _BOUND = 7001, b"b"


def workload(options: argparse.Namespace) -> tuple[Plan, Table]:
    """The workload as it runs on a cluster, with rounds of one step: nothing is sampled."""
    return with_transfer(*plan(options.actors, 1, weights(options.actors + 1), more=CLOCKS))


# -- worker ------------------------------------------------------------------------------------


def worker(options: argparse.Namespace) -> None:
    """Have the actors of this node bind every new version, and tell the head when they all have."""
    here = cache_plan(*workload(options))
    mine = [actor_member(a) for a in range(options.number, options.actors, options.workers)]
    with (
        tempfile.TemporaryDirectory() as logs,
        Node(here, "bench", Path(logs)) as node,
        connected(options.head, _PORT) as line,
        members(node, mine) as boxes,
        agent(node, options, meeting_of(line)),
    ):
        line.sendall(GO)
        seen = -1
        while True:
            _await_version(node, seen)
            seen = node.model[MODEL].version
            _bind(node, boxes, mine, seen)
            line.sendall(_BOUND)


def _await_version(node: Node, seen: int) -> None:
    while node.model[MODEL].version <= seen:
        if not node.board.bell.wait(SECONDS):
            raise DeadlineExceeded(f"a version after {seen}", SECONDS)
        node.board.changed()


def _bind(node: Node, boxes: Mailboxes, mine: Sequence[int], version: int) -> None:
    """Have all actors here bind the newest version.

    Raises:
        DeadlineExceeded: one did not.
    """
    for member in mine:
        boxes.send(member, Invoke(version + 1, "actors.sync", "sync"))
    left = set(mine)
    while left:
        if not node.board.bell.wait(SECONDS):
            raise DeadlineExceeded(f"members {sorted(left)} to bind version {version}", SECONDS)
        for member in node.board.changed():
            while member != LEARNER and (data := node.board.up(member).take()) is not None:
                message = decode_from_member(data)
                if isinstance(message, Failed):
                    raise SystemExit(message.trace)
                if isinstance(message, Done) and message.version >= version:
                    left.discard(member)


# -- head --------------------------------------------------------------------------------------


def head(options: argparse.Namespace) -> dict[str, float]:
    """Publish, and wait until all nodes have said that their actors use it."""
    whole, _ = workload(options)
    with (
        tempfile.TemporaryDirectory() as folder,
        Node(whole, "bench", Path(folder, "logs")) as node,
        replay(node, options, Path(folder)) as (host, meeting),
    ):
        lines = welcomed(options, meeting)
        values = np.random.default_rng(0).standard_normal(node.weights.spec.arrays[0].shape)
        lap = partial(_lap, node, host, lines, values.astype(np.float32))
        return iterate(lap, options.iterations, marked=True)


def _lap(
    node: Node,
    host: ReplayHost,
    lines: Sequence[socket.socket],
    values: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
) -> Lap:
    began = time.perf_counter()
    slot = node.weights.allocate()
    np.copyto(slot.arrays["params"], values)
    node.weights.commit(slot, node.weights.version + 1)
    host.nudge()
    for line in lines:
        if line.recv(1) != _BOUND:
            raise SystemExit("a worker ended")
    return {"first_use_s": time.perf_counter() - began}


def main() -> None:
    """Play one role."""
    torch.set_num_threads(1)
    options = parser(__doc__)
    options.set_defaults(off=())
    chosen = options.parse_args()
    if chosen.role == "worker":
        worker(chosen)
    else:
        answer(head(chosen), ("numpy", "torch", "pyzmq"))


if __name__ == "__main__":
    main()
