"""The transfer agent: ships rows from an executor's blocks to the replay process (paper §4.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import zmq

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import Consumer
from artos.buffer.mailbox import Board
from artos.buffer.model_block import ModelBlock
from artos.buffer.shm_folder import ShmFolder
from artos.buffer.version_runs import version_runs
from artos.clock import Clock, Deadline, SystemClock
from artos.protocol.data import Finish, Greet, Terms
from artos.runs.orders import AGENT_COUNTS, AgentOrders
from artos.runs.plan import Plan
from artos.specs.keys import MODEL_PARAM
from artos.system.closing import Closing
from artos.system.faults import Faults
from artos.system.locks import FileLock
from artos.system.regular_file import contents
from artos.transport import sockets
from artos.transport.chunk import Rings
from artos.transport.counters import Counters
from artos.transport.keys import Keys
from artos.transport.sidecar import ControlPipe
from triggers.engine import DirectPasser, Engine, TriggerWrapper
from triggers.events import Began, Committed, Firing
from triggers.table import Table, decode_table
from triggers.targets import parsed
from workers.agent.answers import AnswersSent
from workers.agent.experience import Shipping
from workers.agent.sender import Packing, Sender, streams
from workers.agent.weights import Assembly, Pulling

Fire = Callable[[int, int, int], None]
"""Called with an actor, a stage, and the row up to which that stage is to be shipped."""
_TICK = 1.0

Load = Callable[[str, str], Any]
"""Imports a trigger class of the user by its source, from the user's folder."""


@dataclass(slots=True)
class _Cache:
    """One actor's block."""

    rings: Rings
    seen: int
    """Rows that the triggers know of."""
    due: list[int]
    """Rows that fired, per stage."""


class Caches:
    """Watches the blocks for commits and keeps each stage's cursors in them.

    Each stage is a consumer: it claims rows that fired and acknowledges rows that arrived. So an
    agent that replaces a dead one knows which rows fired, and triggers go on where they were.
    """

    def __init__(
        self, stages: tuple[Consumer, ...], table: Table, clock: Clock, fire: Fire
    ) -> None:
        self._stages, self._fire = stages, fire
        self._stage_of = {key: n for n, stage in enumerate(stages) for key in stage.keys}
        self._caches: dict[int, _Cache] = {}
        passer = DirectPasser(self._fired)
        self._engine = Engine([TriggerWrapper(*item, passer) for item in table.items()], clock)

    @property
    def engine(self) -> Engine:
        """The transfer triggers, some of which may wait for a point in time."""
        return self._engine

    def place(self, actor: int, block: ActorBlock) -> tuple[list[int], list[int]]:
        """Watch an actor's block; returns, per stage, the rows that fired and that arrived."""
        header = [block.headers[stage.keys[0]] for stage in self._stages]
        cursors = [each.cursor(number) for number, each in enumerate(header)]
        due, arrived = [each[0] for each in cursors], [each[1] for each in cursors]
        self._caches[actor] = _Cache(Rings(block), min(due), due)
        self._engine.feed(Began(actor, min(due)))
        return due, arrived

    def leave(self, actor: int) -> None:
        """Stop reading the block of an actor that now lives on another node."""
        del self._caches[actor]

    def rings(self, actor: int) -> Rings:
        """The rows of an actor as bytes."""
        return self._caches[actor].rings

    def feed_commits(self) -> None:
        """Feed new commits to the triggers; rows that fire are to be shipped."""
        for actor, cache in self._caches.items():
            block = cache.rings.block
            rows = block.written
            if rows > cache.seen:
                start, cache.seen = cache.seen, rows
                for stop, (version,) in version_runs(block, start, rows):
                    written = dict.fromkeys(block.headers, stop)
                    self._engine.feed(Committed(actor, written, version))

    def flush(self) -> None:
        """Have all committed rows shipped, whether or not a trigger fired for them."""
        for actor, cache in self._caches.items():
            for stage in range(len(self._stages)):
                self._ship(actor, stage, cache.rings.block.written)

    def arrived(self, actor: int, stage: int, rows: int) -> None:
        """Let an actor overwrite ``rows`` rows of a stage, which are in the replay buffer now."""
        cache = self._caches[actor]
        cache.rings.block.acknowledge(self._stages[stage].name, cache.due[stage], rows)

    def _fired(self, firing: Firing) -> None:
        for stage in dict.fromkeys(self._stage_of[key] for key in firing.keys):
            for claim in firing.claims:
                if claim.actor in self._caches:  # it may have left with rows that never fired
                    self._ship(claim.actor, stage, claim.stop)

    def _ship(self, actor: int, stage: int, stop: int) -> None:
        cache = self._caches[actor]
        if stop <= cache.due[stage]:
            return
        cache.due[stage] = stop
        block, name = cache.rings.block, self._stages[stage]
        _, acknowledged = block.headers[name.keys[0]].cursor(stage)
        block.acknowledge(name.name, stop, acknowledged)
        self._fire(actor, stage, stop)


def serve(orders: str, control_pipe: int, load: Load) -> int:
    """Run the transfer agent that ``orders`` (JSON) describe; returns the exit status."""
    given = msgspec.json.decode(orders, type=AgentOrders)
    with ControlPipe.held(control_pipe) as pipe, Agent(given, pipe, load, SystemClock()) as agent:
        while not agent.over:
            agent.turn()
        if agent.orphaned:
            agent.remove_memory()
    return 0


class Agent(Closing):
    """Sockets, blocks, triggers and weights of one executor, and the loop that serves them."""

    def __init__(
        self, orders: AgentOrders, control_pipe: ControlPipe, load: Load, clock: Clock
    ) -> None:
        plan = msgspec.json.decode(contents(Path(orders.plan_file)), type=Plan)
        self._orders, self._control_pipe, self._clock = orders, control_pipe, clock
        self._counters = Counters(orders.counters_path, AGENT_COUNTS)
        self._faults = Faults(counted=partial(self._counters.add, "faults"))
        shipped = {t: each for t, each in plan.triggers.items() if parsed(t).ships}
        table = decode_table(shipped, lambda source: load(source, plan.reference.folder))
        row_bytes = {key.name: key.row_bytes(plan.envs) for key in plan.block(0).all_keys}
        self._sender = Sender(streams(plan.consumers, row_bytes), plan.capacity)
        self._caches = Caches(plan.consumers, table, clock, self._sender.fire)
        self._keys = Keys.load(Path(orders.keys)) if orders.keys else None
        self._context: sockets.Context = zmq.Context()
        told = [each.name for each in plan.servers] if plan.answers_travel else []
        self._shipping = Shipping(
            self._opens(orders.node),
            partial(Greet, orders.node, orders.epoch),
            self._sender,
            AnswersSent(Path(orders.site.folder), told),
            Packing(orders.compress),
            self._caches.rings,
            self._caches.arrived,
            clock,
            self._counters,
            self._faults,
        )
        board = Board.attach(orders.site.board_path, orders.site.members)
        # On a worker there are those learners whose weights actors here have.
        pulling = [
            Pulling(
                self._opens(f"{orders.node}/weights" + f".{each.role}" * bool(number)),
                each.role,
                Assembly(ModelBlock.attach(orders.site.model_of(each.role))[MODEL_PARAM]),
                partial(board.notify, board.members.publisher),
                clock,
                self._counters,
                self._faults,
            )
            for number, each in enumerate(board.members.publishers)
        ]
        self._links: tuple[Shipping | Pulling, ...] = (self._shipping, *pulling)
        self._terms: dict[int, int] = {}
        self._deadline: Deadline | None = None
        self.orphaned = False

    def _opens(self, me: str) -> Callable[[], sockets.Socket]:
        return lambda: sockets.connect(
            self._context, self._orders.endpoint, self._keys, me, queue=0
        )

    # -- the loop ------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether it was told to finish, and all committed rows have arrived or time is up."""
        if self._deadline is None:
            return False
        return self._deadline.passed or self._sender.settled

    def turn(self) -> None:
        """Sleep until something comes or is due, and handle it."""
        polled: list[Any] = [socket for each in self._links for socket in each.link.sockets]
        if not self._control_pipe.cut:
            polled.append(self._control_pipe.fileno())
        seconds = _TICK if self._deadline is None else min(_TICK, self._deadline.left)
        if (due := self._caches.engine.due()) is not None:
            seconds = min(seconds, max(0.0, due - self._clock.now()))
        found = zmq.zmq_poll([(what, zmq.POLLIN) for what in polled], int(1000 * seconds))
        ready = {what for what, _ in found}
        if self._control_pipe.fileno() in ready:
            for message in self._control_pipe.take():
                with self._faults.contained(type(message).__name__):
                    if isinstance(message, Terms):
                        self._use_terms(message.terms)
                    elif isinstance(message, Finish):
                        self._deadline = Deadline(message.seconds, self._clock)
            if self._control_pipe.cut and not self.orphaned:
                self.orphaned = True
                self._deadline = self._deadline or Deadline(self._orders.patience, self._clock)
            self._caches.feed_commits()
        self._caches.engine.tick()
        if self._deadline is not None:
            self._caches.flush()
        for each in self._links:
            each.turn(ready)

    def _use_terms(self, terms: dict[int, int]) -> None:
        """Exactly these actors live here, each in its term."""
        changed = {
            actor
            for actor in terms.keys() | self._terms.keys()
            if terms.get(actor) != self._terms.get(actor)
        }
        for actor in sorted(changed):
            term = terms.get(actor)
            if actor in self._terms:
                self._sender.leave(actor)
                self._caches.leave(actor)
            if term is not None:
                block = ActorBlock.attach(self._orders.site.block_path(actor))
                due, arrived = self._caches.place(actor, block)
                self._sender.place(actor, term, due, arrived)
        self._terms = terms
        if changed:
            self._shipping.greet()

    # -- the end -------------------------------------------------------------------------------

    def remove_memory(self) -> None:
        """Remove the shared memory of the executor, which is gone."""
        if self._orders.lock >= 0:
            lock = FileLock(self._orders.lock)
            ShmFolder(Path(self._orders.site.folder), lock).remove()

    def close(self) -> None:
        """Close all connections at once."""
        for each in self._links:
            each.close()
        self._context.destroy(linger=0)
