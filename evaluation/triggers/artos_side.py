"""The time from a commit to its invocation in another process, compared with two bare wake-ups.

``python -m evaluation.triggers.artos_side --actors 100 --rounds 500`` prints medians in µs.

There are two processes on two cores. The node process has the real coordinator, engine, trigger,
journal, board and mailboxes of a workload with that many actors. The member process commits a row
of the last actor, the others do nothing, and waits for the invocation in the learner's mailbox: a
round trip of two wake-ups. With ``--all`` it commits one row of each actor after the other, and the
learner is invoked once for all: from before the first commit to the invocation. ``bare`` is the
same round trip between the same processes with two semaphores only; both kinds take turns. Before
each round trip the member process keeps its core busy for a while, so that the node process is
asleep each time.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from artos.buffer.actor_block import ActorBlock
from artos.buffer.doorbell import SEMAPHORE_BYTES, Doorbell
from artos.buffer.layout import PAGE, Consumer
from artos.buffer.mailbox import Board
from artos.buffer.model_block import ObjectSpec
from artos.buffer.segment import Segment
from artos.clock import SystemClock
from artos.errors import DeadlineExceeded
from artos.protocol.invocations import Done, Invoke, decode_from_member
from artos.runs.plan import Plan, Site
from artos.runs.run_memory import RunMemory
from artos.runtime.member import Line
from artos.specs.keys import MODEL_PARAM, ArraySpec, DataKey
from artos.specs.members import ACTORS, Member
from artos.specs.reference import Reference
from evaluation.baselines.timing import answer
from head.run.coordination.coordinator import Coordinator
from head.run.coordination.ports import Ports
from head.run.wiring import connect
from triggers import DataKeyTrigger
from triggers.journal import Journal
from triggers.passers import QueuePasser
from triggers.table import Table

TARGET, REWARDS = "learner.update", "rewards"
TURNS, WARM_UP, SECONDS = 5, 50, 30.0
_QUIET_SECONDS = 200e-6


def trigger(every: int = 1) -> DataKeyTrigger:
    """Invokes the learner for a row of each of so many actors."""
    return DataKeyTrigger((REWARDS,), n=every, size=1)


def plan(actors: int, every: int = 1) -> Plan:
    """A workload whose learner is invoked for a row of each of so many of its actors."""
    weights = ObjectSpec(MODEL_PARAM, (ArraySpec("params", (1,)),), readers=actors + 1, slots=4)
    return Plan(
        reference=Reference(""), name="latency", env="", seed=0, actors=actors, envs=1, steps=1,
        capacity=64, on_full="wait", total_steps=10**9, data_keys=(DataKey(REWARDS),),
        objects=(weights,), layout=(), triggers={TARGET: trigger(every).encode()},
        methods={"actors": (), "learner": ("update",)}, consumers=(Consumer(TARGET, (REWARDS,)),),
    )  # fmt: skip


class Doorbells:
    """Two doorbells in shared memory: one wakes the node process, one the member process."""

    def __init__(self, segment: Segment, *, create: bool = False) -> None:
        self.node = Doorbell(segment.memory, 0, create=create)
        self.member = Doorbell(segment.memory, SEMAPHORE_BYTES, create=create)


# -- the node's process ------------------------------------------------------------------------


class Mailboxes:
    """The members of the workload as the coordinator needs them: only their mailboxes."""

    def __init__(self, board: Board) -> None:
        learner = board.members.publisher
        self.passers = {learner: QueuePasser(board.down(learner))}

    def waits_for_slot(self, member: Member) -> bool:
        """False: there are no slots."""
        return False

    def unplaced(self, member: Member) -> str:
        """Return "": every member has a place."""
        return ""

    def end(self, member: Member) -> None:
        """Fail: no member dies here."""
        raise AssertionError(f"member {member} cannot be ended")

    def start(self, member: Member) -> None:
        """Fail: no member is restarted here."""
        raise AssertionError(f"member {member} cannot be started")

    def prepare(self, member: Member, within: float = 0.0) -> None:
        """Fail: the number of actors is fixed."""
        raise AssertionError(f"actor member {member} cannot be prepared")

    def retire(self, member: Member) -> None:
        """Fail: the number of actors is fixed."""
        raise AssertionError(f"actor member {member} cannot be retired")


@contextmanager
def coordinating(node: RunMemory, folder: Path, every: int) -> Iterator[Coordinator]:
    """The coordinator of the node's workload, with every actor announced."""
    clock, journal = SystemClock(), Journal(folder / "journal.jsonl")
    members = Mailboxes(node.board)
    table: Table = {TARGET: trigger(every)}
    coordinator = connect(node.plan, table, Ports.of(node, members, clock, journal))
    coordinator.begin()
    try:
        yield coordinator
    finally:
        journal.close()


def serve(node: RunMemory, coordinator: Coordinator, rounds: int) -> None:
    """Serve the board until the member has answered ``rounds`` invocations."""
    board, learner, answered = node.board, node.board.members.publisher, 0
    up = board.up(learner)
    while answered < rounds:
        if not board.doorbell.wait(SECONDS):
            raise DeadlineExceeded("the member's next commit", SECONDS)
        for member in board.changed():
            coordinator.look(member)
            while member == learner and (data := up.take()) is not None:
                coordinator.receive(member, decode_from_member(data))
                answered += 1


def echo(doorbells: Doorbells, rounds: int) -> None:
    """Answer ``rounds`` bare wake-ups."""
    for _ in range(rounds):
        if not doorbells.node.wait(SECONDS):
            raise DeadlineExceeded("the member's ring", SECONDS)
        doorbells.member.ring()


# -- the member's process ----------------------------------------------------------------------


class ActorSide:
    """Commits rows of some actors and takes the invocations they cause."""

    def __init__(self, site: Site, actors: Iterable[int]) -> None:
        board = Board.attach(site.board_path, site.members)
        self._blocks = {
            Member(ACTORS, actor): ActorBlock.attach(site.block_path(actor)) for actor in actors
        }
        self._board, self._line = board, Line(board, board.members.publisher)

    def round_trip(self) -> float:
        """Seconds from just before the first commit until the invocation is decoded."""
        for block in self._blocks.values():
            step = block.allocate(1, SECONDS)
            block.arrays[REWARDS][block.index(step)] = 0.0
        began = time.perf_counter()
        for member, block in self._blocks.items():
            block.commit(step + 1)
            self._board.notify(member)
        call = self._line.receive(SECONDS)
        took = time.perf_counter() - began
        if not isinstance(call, Invoke):
            raise DeadlineExceeded(f"the invocation of row {step}", SECONDS)
        self._line.send(Done(call.firing, version=0))
        self._await_release(step + 1)
        return took

    def _await_release(self, step: int) -> None:
        for block in self._blocks.values():
            while block.headers[REWARDS].released < step:
                os.sched_yield()


def bare_round_trip(doorbells: Doorbells) -> float:
    """Seconds of one bare round trip."""
    began = time.perf_counter()
    doorbells.node.ring()
    if not doorbells.member.wait(SECONDS):
        raise DeadlineExceeded("the node's ring", SECONDS)
    return time.perf_counter() - began


def medians(trip: Callable[[], float], rounds: int) -> float:
    """The median seconds of ``rounds`` round trips; the node process is asleep before each."""
    times = []
    for _ in range(WARM_UP + rounds):
        quiet = time.perf_counter() + _QUIET_SECONDS
        while time.perf_counter() < quiet:
            pass
        times.append(trip())
    return statistics.median(times[WARM_UP:])


def member_main(
    site: Site, actors: Iterable[int], doorbells: Path, rounds: int, out: Connection
) -> None:
    """The member process: both kinds of round trip in turn; sends the medians of each turn."""
    pin(-1)
    member, ring = ActorSide(site, actors), Doorbells(Segment.attach(doorbells))
    turns = [
        (medians(lambda: bare_round_trip(ring), rounds), medians(member.round_trip, rounds))
        for _ in range(TURNS)
    ]
    out.send(turns)


# -- both --------------------------------------------------------------------------------------


def pin(core: int) -> None:
    """Keep this process on one core: the first (0) or the last (-1) it may use."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[core]})


def measure(actors: int, rounds: int, every: int = 1) -> dict[str, float]:
    """Medians in µs of both kinds of round trip; the last ``every`` actors commit."""
    with (
        tempfile.TemporaryDirectory() as logs,
        RunMemory(plan(actors, every), "bench", Path(logs)) as node,
    ):
        doorbells = Path(node.site.folder) / "doorbells"
        ring = Doorbells(Segment.create(doorbells, PAGE), create=True)
        receiver, sender = multiprocessing.Pipe(duplex=False)
        # Forked, so that it is the same program as the node process.
        process = multiprocessing.get_context("fork").Process(
            target=member_main,
            args=(node.site, range(actors - every, actors), doorbells, rounds, sender),
            daemon=True,
        )
        process.start()
        pin(0)
        with coordinating(node, Path(logs), every) as coordinator:
            for _ in range(TURNS):
                echo(ring, WARM_UP + rounds)
                serve(node, coordinator, WARM_UP + rounds)
        return _in_microseconds(receiver.recv())


def _in_microseconds(turns: Sequence[tuple[float, float]]) -> dict[str, float]:
    bare, ours = (statistics.median(times) * 1e6 for times in zip(*turns, strict=True))
    return {"bare": bare, "invocation": ours}


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actors", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--all", action="store_true", help="all actors commit, not the last alone")
    options = parser.parse_args()
    every = options.actors if options.all else 1
    answer(measure(options.actors, options.rounds, every), ("numpy", "msgspec"))


if __name__ == "__main__":
    main()
