"""Actor processes that sample nothing: real roles, blocks and mailboxes, with rows in place.

Only the game is left out, and the process manager that would start them and give them slots.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from artos.actors.context import ActorContext
from artos.buffer.actor_block import ActorBlock
from artos.buffer.mailbox import Board
from artos.buffer.model_block import ModelBlock
from artos.buffer.object_region import ObjectRegion
from artos.errors import DeadlineExceeded
from artos.policies.fast import make_actor
from artos.protocol.invocations import Invoke, Ready, Stop
from artos.runs.plan import Plan, Site
from artos.runs.run_memory import RunMemory
from artos.runtime.member import ActorRole, LearnerRole, Line, serve
from artos.specs.contracts import Actor
from artos.specs.keys import MODEL_PARAM, VERSION_KEY, DataKey
from artos.specs.members import Member
from evaluation.pipelining.rounds_plan import SPEC, network
from triggers.passers import QueuePasser

SECONDS = 60.0
SAMPLED = DataKey("sampled_at", (), "float64", per_env=False)
"""Data key for the time at which an actor had sampled a round (seconds)."""

MakeLearner = Callable[[ObjectRegion], Any]


class Prefilled(Actor):
    """An actor that stamps its rows, which are there already, with their version and the time."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def setup(self, context: ActorContext) -> None:
        """Take the block, its rows and the network."""
        self._block = context.block
        self._rows = {name: array.copy() for name, array in context.block.arrays.items()}
        self._policy = make_actor(self._module, SPEC, context.seed)

    def bind(self, params: NDArray[np.float32], version: int) -> None:
        """Act with these weights from now on."""
        self._policy.bind(params)
        self.version = version

    def sample(self, start: int, rows: int, call: Invoke) -> dict[str, float]:
        """Stamp the rows."""
        del call
        # In its first round an actor has to write all keys, whatever was there before.
        for name, array in self._rows.items():
            self._block.arrays[name][...] = array
        self._rows.clear()
        for key, value in ((VERSION_KEY, self.version), (SAMPLED.name, time.perf_counter())):
            for stamped in self._block.views(key, start, start + rows):
                stamped.fill(value)
        return {}


class Mailboxes:
    """Members as a coordinator needs them: only their mailboxes."""

    def __init__(self, board: Board) -> None:
        self.passers = {member: QueuePasser(board.down(member)) for member in board.members}

    def waits_for_slot(self, member: Member) -> bool:
        """False: there are no slots."""
        return False

    def unplaced(self, member: Member) -> str:
        """Return "": every member has a place."""
        return ""

    def end(self, member: Member, within: float = 0.0) -> None:
        """Fail: no member ends or starts during the measurement."""
        del within
        raise DeadlineExceeded(f"{member}, which failed", 0)

    start = prepare = retire = end


@contextmanager
def members(
    node: RunMemory, who: Sequence[Member], learner: MakeLearner | None = None
) -> Iterator[Mailboxes]:
    """Start the processes of these members; stop them at the end."""
    module, context = network(), multiprocessing.get_context("fork")
    start = partial(context.Process, target=_member, daemon=True)
    processes = {m: start(args=(node.site, node.plan, m, module, learner)) for m in who}
    boxes = Mailboxes(node.board)
    for process in processes.values():
        process.start()
    try:
        yield boxes
    finally:
        for member, process in processes.items():
            boxes.passers[member].pass_message(Stop())
            process.join(SECONDS)


def _member(
    site: Site, plan: Plan, member: Member, module: Any, learner: MakeLearner | None
) -> None:
    """The process of a member: report ``Ready``, then serve until told to stop."""
    torch.set_num_threads(1)
    board = Board.attach(site.board_path, site.members)
    model = ModelBlock.attach(site.model_path)[MODEL_PARAM]
    if board.members.role(member).publishes:
        assert learner is not None
        blocks = {actor: ActorBlock.attach(site.block_path(actor)) for actor in range(plan.actors)}
        role: LearnerRole | ActorRole = LearnerRole(learner(model), model, blocks)
    else:
        block = ActorBlock.attach(site.block_path(member.rank))
        context = ActorContext(plan, member.rank, block.begin_incarnation(), block, member.rank)
        role = ActorRole(Prefilled(module), context, model)
    line = Line(board, member)
    line.send(Ready(0.0))
    serve(role, line)
