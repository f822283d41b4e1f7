"""Rounds over ARTOS's data path: transfer agent, replay process, triggers; features can be off.

``python -m evaluation.pipelining.artos_side head|worker --off compression --off once``. The
worker's blocks, its transfer agent, the replay process and the head's blocks are those of a run;
the head uses the real trigger table. The learner is a stand-in (``stand_in_learner``). All rows
are committed at once when the head says so: the worst case for the link, as no transfer overlaps
with the sampling of other actors.
"""

from __future__ import annotations

import argparse
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from artos.buffer.actor_block import ActorBlock
from artos.buffer.model_block import ObjectSpec
from artos.clock import SystemClock
from artos.runs.plan import Plan
from artos.runs.run_memory import RunMemory
from artos.specs.keys import MODEL_PARAM, VERSION_KEY, ArraySpec
from artos.system.child_modules import ChildModule
from artos.transport.keys import make_keys
from evaluation.baselines.timing import answer
from evaluation.pipelining import not_encrypted
from evaluation.pipelining.artos_learner import Learner
from evaluation.pipelining.iterations import Lap, Stopwatch, iterate
from evaluation.pipelining.rounds import Recording
from evaluation.pipelining.rounds_plan import fill, plan
from evaluation.pipelining.shared import SECONDS, accepted, connected, parser
from evaluation.pipelining.stand_in_learner import Learning
from head.run.replay_host import ReplayHost
from triggers.algorithms.pipelines import Pipeline
from triggers.table import Table
from triggers.wiring import cache_plan, with_transfer
from workers.executor.agent_host import AgentHost

FEATURES = ("dual-stage", "mini-batch", "compression", "once", "curve")
GO = b"g"
"""Head → worker: commit a round. Worker → head, once: ready."""
_PORT, _EPOCH, _TERM = 7001, 1, 1


class Meeting(msgspec.Struct, frozen=True):
    """Head → worker, the first line: the endpoint to ship rows to, and the folder of keys."""

    endpoint: str
    keys: str


def pipeline(off: Sequence[str]) -> Pipeline:
    """The pipeline that is left when the features ``off`` are off."""
    both: dict[tuple[bool, bool], Pipeline] = {
        (True, True): "dual+minibatch",
        (True, False): "dual",
        (False, True): "minibatch",
        (False, False): "none",
    }
    return both["dual-stage" not in off, "mini-batch" not in off]


def workload(options: argparse.Namespace) -> tuple[Plan, Table]:
    """The workload as it runs on a cluster; weights are tiny, as they are measured elsewhere."""
    model = ObjectSpec(MODEL_PARAM, (ArraySpec("params", (1,)),), options.actors + 1, 4)
    once = "once" not in options.off
    return with_transfer(
        *plan(options.actors, options.steps, model, pipeline(options.off), once=once)
    )


# -- worker ------------------------------------------------------------------------------------


def worker(options: argparse.Namespace) -> None:
    """Commit a round of every actor each time the head says so, until it disconnects."""
    here = cache_plan(*workload(options))
    with (
        tempfile.TemporaryDirectory() as logs,
        RunMemory(here, "bench", Path(logs)) as node,
        connected(options.head, _PORT) as line,
    ):
        for block in node.blocks.values():
            fill(block, Recording(options.recording), options.steps)
        with agent(node, options, meeting_of(line)) as host:
            line.sendall(GO)
            line.settimeout(None)
            version = 0
            while line.recv(1):
                for block in node.blocks.values():
                    commit(block, options.steps, version)
                host.nudge()
                version += 1


def commit(block: ActorBlock, steps: int, version: int) -> None:
    """Commit the next rows, as sampled with weights of this version."""
    start = block.allocate(steps, SECONDS)
    for rows in block.views(VERSION_KEY, start, start + steps):
        rows.fill(version)
    block.commit(start + steps)


def meeting_of(line: socket.socket) -> Meeting:
    """The head's first message."""
    with line.makefile("rb") as lines:
        return msgspec.json.decode(lines.readline(), type=Meeting)


@contextmanager
def agent(node: RunMemory, options: argparse.Namespace, meeting: Meeting) -> Iterator[AgentHost]:
    """The worker's transfer agent, with the worker's actors placed there."""
    process = not_encrypted.MODULE if "curve" in options.off else ChildModule.AGENT
    host = AgentHost(
        node.plan, node.site, node.plan_file, meeting.endpoint, Path(meeting.keys),
        f"worker{options.number}", _EPOCH, SystemClock(),
        compress="compression" not in options.off, process=process,
    )  # fmt: skip
    host.start()
    try:
        actors = range(options.number, node.plan.actors, options.workers)
        host.terms(dict.fromkeys(actors, _TERM))
        yield host
    finally:
        host.stop()


# -- head --------------------------------------------------------------------------------------


@contextmanager
def replay(
    node: RunMemory, options: argparse.Namespace, folder: Path
) -> Iterator[tuple[ReplayHost, Meeting]]:
    """The head's replay process, which takes the rows of all actors; and the ``Meeting``."""
    keys = folder / "keys"
    make_keys(keys)
    process = not_encrypted.MODULE if "curve" in options.off else ChildModule.REPLAY
    host = ReplayHost(
        node.site, node.plan_file, keys, options.address, SystemClock(), _EPOCH, process=process
    )
    host.start()
    try:
        actors = range(node.plan.actors)
        host.terms(dict.fromkeys(actors, _TERM), dict.fromkeys(actors, 0), {})
        yield host, Meeting(host.endpoint, str(keys))
    finally:
        host.stop()


def head(options: argparse.Namespace) -> dict[str, float]:
    """Have rounds committed, and learn from their rows as they come."""
    whole, table = workload(options)
    learning = Learning()
    with (
        tempfile.TemporaryDirectory() as folder,
        RunMemory(whole, "bench", Path(folder, "logs")) as node,
        replay(node, options, Path(folder)) as (host, meeting),
    ):
        learner = Learner(node, table, learning, host.nudge)
        lines = welcomed(options, meeting)
        lap = partial(_lap, learner, learning, lines, options.steps)
        return iterate(lap, options.iterations, marked=True)


def welcomed(options: argparse.Namespace, meeting: Meeting) -> list[socket.socket]:
    """Connections to all workers, each with its transfer agent started."""
    lines = accepted(options.address, _PORT, options.workers)
    for line in lines:
        line.sendall(msgspec.json.encode(meeting) + b"\n")
    for line in lines:
        if line.recv(1) != GO:
            raise SystemExit("a worker ended during its start")
    return lines


def _lap(learner: Learner, learning: Learning, lines: Sequence[socket.socket], steps: int) -> Lap:
    watch = Stopwatch(learning, steps)
    for line in lines:
        line.sendall(GO)
    learner.update(watch.arrived)
    return watch.ended()


def main() -> None:
    """Play one role."""
    options = parser(__doc__)
    options.add_argument("--off", action="append", default=[], choices=FEATURES)
    chosen = options.parse_args()
    if chosen.role == "worker":
        worker(chosen)
    else:
        answer(head(chosen), ("numpy", "pyzmq", "lz4"))


if __name__ == "__main__":
    main()
