"""A head and a worker of one run, each with its own shared memory; the test is both loops."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from artos.buffer.actor_block import ActorBlock
from artos.buffer.mailbox import Board
from artos.buffer.model_block import ModelBlock, ObjectSpec
from artos.buffer.shm_folder import ShmFolder
from artos.clock import Deadline, SystemClock
from artos.runs.plan import Plan, Site
from artos.specs.keys import VERSION_KEY, ArraySpec, DataKey, OnFull
from artos.specs.members import LEARNER, Member
from artos.specs.reference import Reference
from artos.system.closing import Closing
from artos.transport.keys import make_keys
from head.run.replay_host import ReplayHost
from triggers.primitives import TransferTrigger
from triggers.wiring import cache_plan
from workers.executor.agent_host import AgentHost

PATIENCE = 240.0
FRAME = (40, 40)
KEYS = (
    DataKey("frames", FRAME, "uint8"),
    DataKey("rewards", (), "float64"),
    DataKey("seen", (3,), "int32", per_env=False),
)
STAGES = (("rewards",), ("frames",))
PARAMS = 300_001


def plan_of(
    actors: int, steps: int, capacity: int, *, on_full: OnFull = "wait", trigger: object = None
) -> tuple[Plan, dict[str, object]]:
    """A plan with nothing behind it, and its table: two stages unless told otherwise."""
    table = {"transfer": trigger or TransferTrigger(STAGES, steps)}
    arrays = [ArraySpec("params", (PARAMS,)), ArraySpec("learner.moments", (PARAMS,))]
    plan = Plan(
        Reference("nobody:nothing"), "two-nodes", "none", 0, actors, 2, steps, capacity, on_full,
        10**9, KEYS, (ObjectSpec.sized("model_param", arrays, actors + 1),), (),
        {target: each.encode() for target, each in table.items()}, {},
    )  # fmt: skip
    return plan, table


def value(actor: int, name: str, step: int, shape: tuple[int, ...]) -> np.ndarray:
    """What a row holds: nothing but itself could be mistaken for it."""
    seed = hash((actor, step)) & 0xFFFF
    if name == "frames":
        rows = np.full(shape, step % 251, np.uint8)
        rows[..., 0, :4] = [actor, step & 255, step >> 8 & 255, step >> 16 & 255]
        return rows
    if name == VERSION_KEY:
        return np.array(step // 64)
    return np.full(shape, actor * 1_000_000 + step + seed / 2**16 * (name == "rewards"))


class Side(Closing):
    """Shared memory of one node: folder, board, model, blocks."""

    def __init__(self, plan: Plan, name: str, logs: Path, blocks: Sequence[int]) -> None:
        self.plan, self.folder = plan, ShmFolder.create(name)
        self.site = Site(str(self.folder.path), Member(LEARNER), plan.members, str(logs / name))
        self.board = Board.create(self.site.board_path, plan.members)
        self.model = ModelBlock.create(self.site.model_path, plan.objects)["model_param"]
        self.plan_file = self.folder.path / "plan.json"
        self.plan_file.write_bytes(msgspec.json.encode(plan))
        self.blocks = {a: ActorBlock.create(self.site.block_path(a), plan.block(a)) for a in blocks}

    def close(self) -> None:
        """Remove it all."""
        self.folder.remove()


class Head(Side):
    """The head node: its loop claims and checks each row that arrived, and lets it go."""

    def __init__(
        self, plan: Plan, logs: Path, keys: Path | None, *, dtype: str = "float32"
    ) -> None:
        super().__init__(plan, "head", logs, range(plan.actors))
        self.host = ReplayHost(
            self.site, self.plan_file, keys, "127.0.0.1", SystemClock(), 1, dtype
        )
        self.checked = dict.fromkeys(range(plan.actors), 0)

    def publish(self, version: int) -> None:
        """New weights: every parameter is the version."""
        slot = self.model.allocate()
        slot.arrays["params"].fill(version)
        self.model.commit(slot, version)
        self.host.nudge()

    def consume(self, *, check: bool = True) -> int:
        """Check and release what arrived since the last time; how many rows."""
        taken = 0
        for member in self.board.changed():
            taken += self._consume(member.rank, check=check) if member.role != LEARNER else 0
        if taken:
            self.host.nudge()
        return taken

    def _consume(self, actor: int, *, check: bool) -> int:
        block, start = self.blocks[actor], self.checked[actor]
        stop = block.written
        for step in range(start, stop if check else start):
            for name, array in block.arrays.items():
                row = array[block.index(step)]
                assert np.array_equal(row, value(actor, name, step, row.shape)), (name, step)
        for number, consumer in enumerate(self.plan.consumers):
            assert number == 0
            block.acknowledge(consumer.name, stop, stop)
        self.checked[actor] = stop
        return stop - start

    def close(self) -> None:
        """End the processes too."""
        self.host.stop()
        super().close()


class Worker(Side):
    """A worker node: its loop is an actor that writes rows as long as there is room."""

    def __init__(
        self, plan: Plan, table: dict, logs: Path, keys: Path | None, head: Head,
        actors: Sequence[int], name: str = "node", endpoint: str = "", epoch: int = 1,
        **options: object,
    ) -> None:  # fmt: skip
        super().__init__(cache_plan(plan, table), name, logs, actors)
        self.name, self.actors = name, tuple(actors)
        self.host = AgentHost(
            self.plan, self.site, self.plan_file, endpoint or head.host.endpoint, keys, name, epoch,
            SystemClock(), self.folder.lock, **options,
        )  # fmt: skip

    def place(self, head: Head, term: int = 1) -> None:
        """All its actors begin (anew) here, where the head's rows of them end."""
        terms = dict.fromkeys(self.actors, term)
        bases = {actor: head.blocks[actor].written for actor in self.actors}
        head.host.terms(terms, bases, dict.fromkeys(self.actors, self.name))
        if term > 1:
            for actor in self.actors:
                path = self.site.block_path(actor)
                path.unlink()
                spec = self.plan.block(actor)
                self.blocks[actor] = ActorBlock.create(path, spec, base=bases[actor], term=term)
        self.host.terms(terms)

    def write(self, rows: int) -> None:
        """Commit so many rows of every actor that has room for them now."""
        for actor, block in self.blocks.items():
            if block.free() >= rows:
                start = block.allocate(rows, 0)
                for step in range(start, start + rows):
                    for name, array in block.arrays.items():
                        row = array[block.index(step)]
                        array[block.index(step)] = value(actor, name, step, row.shape)
                block.commit(start + rows)
        self.host.nudge()

    def close(self) -> None:
        """End the agent too."""
        self.host.stop()
        super().close()


@contextlib.contextmanager
def two_nodes(
    tmp: Path, plan: Plan, table: dict, *, curve: bool = True, dtype: str = "float32",
    **options: object,
) -> Iterator[tuple[Head, Worker]]:  # fmt: skip
    """Head and worker of a run, started and introduced to each other."""
    keys = tmp / "keys" if curve else None
    if keys is not None:
        make_keys(keys)
    with Head(plan, tmp, keys, dtype=dtype) as head:
        head.host.start()
        with Worker(plan, table, tmp, keys, head, range(plan.actors), **options) as worker:
            worker.host.start()
            worker.place(head)
            yield head, worker


def kill(head: Head, worker: Worker, name: str) -> None:
    """SIGKILL this process; one that died a moment ago is waited for, it is started again."""
    deadline = Deadline(PATIENCE)
    while name not in (pids := head.host.pids() | worker.host.pids()):
        assert not deadline.passed, f"{name} is not started again"
        head.board.doorbell.wait(0.05)
        head.host.reap()
        worker.host.reap()
    os.kill(pids[name], signal.SIGKILL)


def run_until(head: Head, worker: Worker, rows: int, *, at_once: int) -> None:
    """Let actors write and the head consume until so many rows of all of the worker's went by."""
    end = time.monotonic() + PATIENCE
    while min(head.checked[actor] for actor in worker.actors) < rows:
        assert time.monotonic() < end, (head.checked, worker.blocks, head.blocks)
        worker.write(at_once)
        head.board.doorbell.wait(0.05)
        head.host.reap()
        worker.host.reap()
        head.consume()
