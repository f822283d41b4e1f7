"""One machine: how long rounds take from 16 actors to the learner, and weights back to them.

``python -m evaluation.handover_ours --recording FOLDER`` answers with ``cursors_s``, from the end
of the last actor's sampling until the learner's update runs with all rows readable in place;
``batch_s``, until they are one gathered batch; ``weights_s``, from publishing until the last of the
actors has bound the new version.

Learner and actors are processes with the real roles, blocks and mailboxes; the coordinator, engine
and triggers are the real ones, too. Only the game and the slots of a process manager are missing:
rows are in place beforehand, as an actor writes them step by step while it samples.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from artos.actors.context import ActorContext
from artos.buffer.actor_block import ActorBlock
from artos.buffer.batch import Batch
from artos.buffer.board import LEARNER, Board, actor_member
from artos.buffer.model_block import ModelBlock, ObjectRegion
from artos.clock import SystemClock
from artos.errors import DeadlineExceeded
from artos.messages import Done, Failed, Invoke, Ready, Stop, ToMember, decode_from_member, encode
from artos.plan import Plan, Site
from artos.policies.fast import make_actor
from artos.runtime.member import Line, Role, serve
from artos.runtime.roles import ActorRole, LearnerRole
from artos.spec import VERSION_KEY, DataKey
from deploy.node import MODEL, Node
from deploy.wiring import connect
from evaluation.rivals.iterations import WARM_UP
from evaluation.rivals.rounds import OBSERVATIONS, Recording
from evaluation.rivals.timing import answer
from evaluation.rounds_plan import SPEC, fill, network, plan, weights
from head.coordinator import Coordinator
from triggers.journal import Journal
from triggers.table import Table

SECONDS = 60.0
BOUND, SAMPLED = "bound_at", "sampled_at"
CLOCKS = tuple(DataKey(name, (), "float64", per_env=False) for name in (BOUND, SAMPLED))
"""Data keys for when an actor had bound its weights, and when it had sampled (seconds)."""


# -- members -----------------------------------------------------------------------------------


class Prefilled:
    """An actor whose rows are in place: it stamps them with the version and the time."""

    def __init__(self, module: Any) -> None:
        self._module, self.version, self._bound_at = module, -1, 0.0

    def setup(self, context: ActorContext) -> None:
        """Take the block and the network."""
        self._block = context.block
        self._policy = make_actor(self._module, SPEC, context.seed)

    def bind(self, params: NDArray[np.float32], version: int) -> None:
        """Act with these weights from now on."""
        self._policy.bind(params)
        self.version, self._bound_at = version, time.perf_counter()

    def sample(self, start: int, rows: int) -> dict[str, float]:
        """Stamp the rows."""
        for span in self._block.spans(start, start + rows):
            self._block.arrays[VERSION_KEY][span] = self.version
        last = self._block.index(start + rows - 1)
        self._block.arrays[BOUND][last] = self._bound_at
        self._block.arrays[SAMPLED][last] = time.perf_counter()
        return {}

    def episodes(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """None ends."""
        return (), ()


class Receiver:
    """A learner that only says when it had what."""

    silent = ()

    def __init__(self, region: ObjectRegion) -> None:
        arrays = region.spec.arrays
        self._live = {each.name: np.zeros(each.shape, each.dtype) for each in arrays}
        self._live["params"][:] = np.random.default_rng(0).standard_normal(
            self._live["params"].shape
        )
        self.fresh, self._publishing = False, 0.0

    def live(self) -> Mapping[str, NDArray[Any]]:
        """The weights: asked for last when they are about to be published."""
        self._publishing = time.perf_counter()
        return self._live

    def seconds(self) -> Mapping[str, float]:
        """Nothing to tell."""
        return {}

    def update(self, batch: Batch, call: Invoke) -> dict[str, float]:
        """Take the rows in place, then as one batch; the update is over when it publishes."""
        del call
        views = batch.views(OBSERVATIONS)
        handed_over = time.perf_counter()
        batch.gather(OBSERVATIONS)
        gathered = time.perf_counter()
        assert len(views) == batch.shape[0]
        sampled, bound = (float(batch.gather(name)[:, -1].max()) for name in (SAMPLED, BOUND))
        found = {"cursors_s": handed_over - sampled, "batch_s": gathered - sampled}
        found["weights_s"] = bound - self._publishing
        self.fresh = True
        return found


def member(site: Site, plan: Plan, number: int, module: Any) -> None:
    """The process of a member: report, then serve until told to stop."""
    torch.set_num_threads(1)
    board = Board.attach(site.board_path, site.members)
    model = ModelBlock.attach(site.model_path)[MODEL]
    role = (
        _learner(site, plan, model)
        if number == LEARNER
        else _actor(site, plan, model, number, module)
    )
    line = Line(board, number)
    line.send(Ready(0.0))
    serve(role, line)


def _learner(site: Site, plan: Plan, model: ObjectRegion) -> Role:
    blocks = {actor: ActorBlock.attach(site.block_path(actor)) for actor in range(plan.actors)}
    return LearnerRole(Receiver(model), model, blocks)


def _actor(site: Site, plan: Plan, model: ObjectRegion, number: int, module: Any) -> Role:
    actor = number - 1
    block = ActorBlock.attach(site.block_path(actor))
    context = ActorContext(plan, actor, block.begin_incarnation(), block, actor)
    return ActorRole(Prefilled(module), context, model)


# -- the node ----------------------------------------------------------------------------------


class Mailboxes:
    """All members of the workload, as far as the coordinator needs them: their mailboxes."""

    def __init__(self, board: Board, members: int) -> None:
        self._down = [board.down(number) for number in range(members)]

    def send(self, number: int, message: ToMember) -> None:
        """Put a message into the member's mailbox."""
        self._down[number].put(encode(message))

    def end(self, number: int) -> None:
        """Nobody dies here."""
        raise DeadlineExceeded(f"member {number}, which failed", 0)

    start = prepare = retire = end


def measure(
    workload: tuple[Plan, Table], recording: Recording, iterations: int
) -> dict[str, float]:
    """Medians of so many iterations, in seconds."""
    plan, table = workload
    with tempfile.TemporaryDirectory() as logs, Node(plan, "bench", Path(logs)) as node:
        for block in node.blocks.values():
            fill(block, recording, plan.steps)
        everyone = (LEARNER, *map(actor_member, range(plan.actors)))
        with members(node, everyone) as boxes, _journal(Path(logs)) as journal:
            clock = SystemClock()
            coordinator = Coordinator(plan, node.blocks, node.weights, boxes, clock, journal)
            connect(table, coordinator, clock, journal)
            coordinator.begin()
            laps = list(_laps(node, coordinator, WARM_UP + iterations))[WARM_UP:]
    return {name: statistics.median(lap[name] for lap in laps) for name in laps[0]}


@contextmanager
def _journal(folder: Path) -> Iterator[Journal]:
    journal = Journal(folder / "journal.jsonl")
    try:
        yield journal
    finally:
        journal.close()


@contextmanager
def members(node: Node, numbers: Sequence[int]) -> Iterator[Mailboxes]:
    """The processes of these members; told to stop at the end, and waited for."""
    module, context = network(), multiprocessing.get_context("fork")
    start = partial(context.Process, target=member, daemon=True)
    processes = {n: start(args=(node.site, node.plan, n, module)) for n in numbers}
    boxes = Mailboxes(node.board, node.site.members)
    for process in processes.values():
        process.start()
    try:
        yield boxes
    finally:
        for number, process in processes.items():
            boxes.send(number, Stop())
            process.join(SECONDS)


def _laps(node: Node, coordinator: Coordinator, count: int) -> Iterator[dict[str, float]]:
    """Serve the board; what the learner found in each of so many updates."""
    board, told = node.board, 0
    while told < count:
        if not board.bell.wait(SECONDS):
            raise DeadlineExceeded(f"any of {coordinator.waits()}", SECONDS)
        for number in board.changed():
            coordinator.look(number)
            while (data := board.up(number).take()) is not None:
                message = decode_from_member(data)
                if isinstance(message, Failed):
                    raise SystemExit(message.trace)
                coordinator.receive(number, message)
                if number == LEARNER and isinstance(message, Done):
                    told += 1
                    yield message.metrics


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actors", type=int, default=16)
    parser.add_argument("--steps", type=int, default=512)
    parser.add_argument("--iterations", type=int, default=15)
    parser.add_argument("--recording", type=Path, required=True)
    parser.add_argument("--whole", action="store_true", help="store whole stacks of frames")
    parser.add_argument(
        "--in-place", action="store_true", help="weights alone, and slots for all readers"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = weights(options.actors + 1, in_place=options.in_place)
    found = plan(options.actors, options.steps, model, once=not options.whole, more=CLOCKS)
    recording = Recording(options.recording)
    answer(measure(found, recording, options.iterations), ("numpy", "torch"))


if __name__ == "__main__":
    main()
