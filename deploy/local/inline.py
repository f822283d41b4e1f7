"""A run in one process: the same wiring, every member called in turn; deterministic by seed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import msgspec

from artos.buffer.mailbox import LEARNER, actor_member, actor_of
from artos.buffer.run_memory import RunMemory
from artos.errors import CheckpointFault
from artos.protocol.invocations import Done, Invoke, Ready, Waits
from artos.runtime.leased import LeasedRole
from artos.runtime.member import Role, Stopped, guarded
from artos.runtime.reference import user_imports
from artos.runtime.serving import (
    actor_role,
    any_learner_role,
    evaluator_role,
    failed_to_start,
)
from artos.snapshot import (
    NotKept,
    Snapshot,
    global_streams,
    pickled,
    set_global_streams,
    unpickled,
)
from artos.usage import Usage
from artos.version import VERSION
from head.run.run import Run
from head.run.saved_books import resumed, saved
from triggers.engine import direct_passers

_IDLE_SECONDS = 0.05


class _States(msgspec.Struct):
    """Pickles of the books with the queue, of members that can go on, and of global streams."""

    run: bytes
    set_up: tuple[int, ...]
    members: dict[int, bytes]
    streams: bytes
    version: str = ""


class Inline:
    """The members of a run as objects in this process, run in the order they were invoked.

    Implements ``Processes``.
    """

    def __init__(self, node: RunMemory, states: bytes = b"") -> None:
        self._node, self._states = node, states
        self._coordinator: Run | None = None
        self._halted = False
        self._roles: dict[int, Role] = {}
        self._queue: deque[tuple[int, Invoke]] = deque()
        self._to_set_up: deque[int] = deque()
        self._free_since: dict[int, float] = {}
        self._beside = [m for m in (LEARNER, node.plan.evaluator) if m is not None]
        members = (*self._beside, *map(actor_member, node.blocks))
        self.passers = direct_passers(self.queue, members)

    def queue(self, member: int, call: Invoke) -> None:
        """Queue an invocation."""
        self._queue.append((member, call))

    def waits_for_slot(self, member: int) -> bool:
        """False: there are no slots."""
        return False

    def unplaced(self, member: int) -> str:
        """ "Return "": every member lives in this process."""
        return ""

    def end(self, member: int) -> None:
        """Drop the member and its queued invocations."""
        self._queue = deque(entry for entry in self._queue if entry[0] != member)
        if isinstance(role := self._roles.pop(member, None), LeasedRole):
            role.close()
        if member not in self._beside:
            self._node.blocks[actor_of(member)].recover()
            self._node.weights.unpin(actor_of(member))

    def start(self, member: int) -> None:
        """Set the member up again before anything else runs."""
        self._to_set_up.append(member)

    def prepare(self, member: int, within: float = 0.0) -> None:
        """Set the actor up, unless it is set up already; there is no better time than now."""
        del within
        if member not in self._roles and member not in self._to_set_up:
            self._to_set_up.append(member)

    def retire(self, member: int) -> None:
        """Do nothing: the actor holds no resource that others wait for, and keeps its episode."""

    def run(self, coordinator: Run, after: Callable[[], None]) -> None:
        """Set all members up and run one invocation after another until the run is finished."""
        self._coordinator = coordinator
        self._begin(coordinator)
        while not (coordinator.finished or self._halted):
            while self._to_set_up:
                self._set_up(coordinator, self._to_set_up.popleft())
            if (turn := self._next()) is not None:
                self._run_one(coordinator, *turn)
            elif not coordinator.finished:
                self._node.board.doorbell.wait(_IDLE_SECONDS)  # for a time trigger or a signal
            coordinator.tick()
            after()
        if self._halted:
            coordinator.ending.drain()

    def halt(self) -> bool:
        """Stop after the present invocation, with the others still to come. Safe in a handler."""
        self._halted = self._node.plan.checkpoint == "all"
        return self._halted

    # -- snapshots -----------------------------------------------------------------------------

    def snapshot(self) -> Snapshot | None:
        """What everybody holds between two invocations."""
        if self._coordinator is None or LEARNER not in self._roles:
            return None
        members, lost = {}, []
        for member, role in self._roles.items():
            try:
                members[member] = pickled(role.snapshot())
            except NotKept as why:
                lost.append(f"{self._coordinator.roster.name_of(member)} starts anew: {why}")
        run, streams = saved(self._coordinator, self._queue), pickled(global_streams())
        states = _States(run, tuple(self._roles), members, streams, VERSION)
        return Snapshot(msgspec.msgpack.encode(states), tuple(lost))

    def _begin(self, coordinator: Run) -> None:
        if not self._states:
            coordinator.begin()
            self._to_set_up.extend([*self._beside, *map(actor_member, coordinator.actors)])
            return
        try:
            self._go_on(coordinator, msgspec.msgpack.decode(self._states, type=_States))
        except (NotKept, ValueError, LookupError, TypeError, AttributeError) as error:
            why = (
                f"its states are not those of this code and these settings ({error}): resume with "
                "the same, or go on without them by --set checkpoint=model"
            )
            raise CheckpointFault("of the run", why) from error

    def _go_on(self, coordinator: Run, found: _States) -> None:
        if found.version != VERSION:
            raise NotKept(f"of ARTOS {found.version or 'of earlier days'}, this is {VERSION}")
        self._queue = resumed(coordinator, found.run)
        for member in found.set_up:
            self._set_up(coordinator, member)
        for member, state in found.members.items():
            self._roles[member].go_on(unpickled(state))
        set_global_streams(unpickled(found.streams))

    def _next(self) -> tuple[int, Invoke] | None:
        """The next invocation that need not wait for room: a waiting one would block all others."""
        waiting: set[int] = set()
        for at, (member, call) in enumerate(self._queue):
            if member not in waiting and self._has_room(member, call):
                del self._queue[at]
                return member, call
            waiting.add(member)  # its later invocations keep their order
        return None

    def _has_room(self, member: int, call: Invoke) -> bool:
        if member in self._beside or self._node.plan.on_full != "wait":
            return True
        block = self._node.blocks[actor_of(member)]
        return call.stop - block.written <= block.free()

    def _set_up(self, coordinator: Run, member: int) -> None:
        try:
            with user_imports(self._node.plan.reference.folder):
                self._roles[member] = self._role(member)
                self._free_since[member] = time.perf_counter()
        except (Exception, SystemExit) as error:
            coordinator.receive(member, failed_to_start(error))
            return
        device = getattr(self._roles[member], "device", "")
        coordinator.receive(member, Ready(0.0, device=device))
        coordinator.look(member)

    def _role(self, member: int) -> Role:
        plan, model = self._node.plan, self._node.model
        site = msgspec.structs.replace(self._node.site, member=member)
        if member == LEARNER:
            return any_learner_role(plan, site, model, self._report, self._told_to_stop)
        if member == plan.evaluator:
            return evaluator_role(plan, site, lambda: None)
        return actor_role(plan, site, model)[0]

    def _report(self, waits: Waits) -> None:
        if self._coordinator is not None:
            self._coordinator.receive(LEARNER, waits)

    def _told_to_stop(self) -> bool:
        return self._halted or (self._coordinator is not None and self._coordinator.ending.draining)

    def _run_one(self, coordinator: Run, member: int, call: Invoke) -> None:
        role = self._roles[member]
        waited = time.perf_counter() - self._free_since[member]
        try:
            answer = guarded(lambda: role.run(call), call, role)
        except Stopped:
            self._queue.appendleft((member, call))
            return
        self._free_since[member] = time.perf_counter()
        if isinstance(answer, Done):
            answer.times["wait"] = waited
            coordinator.look(member)
        coordinator.receive(member, answer)

    def child_ended(self) -> None:
        """Do nothing: the child of this process that ended is not a member."""

    def usage(self) -> Usage:
        """Nothing: no processes are started, and no slots are held."""
        return Usage()

    def stop(self) -> None:
        """Close every member."""
        for role in self._roles.values():
            role.close()
        self.kill()

    def kill(self) -> None:
        """Drop every member."""
        if isinstance(role := self._roles.get(LEARNER), LeasedRole):
            role.close()
        self._roles.clear()
        self._queue.clear()
