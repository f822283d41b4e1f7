"""A run in one process: the same wiring, every member called in turn; deterministic by seed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from functools import partial

import msgspec

from artos.buffer.desk import Bell
from artos.protocol.control import BranchRun, RunBranched
from artos.protocol.invocations import Done, Invoke, Ready, Waits
from artos.protocol.usage import Usage
from artos.runs.loader import user_imports
from artos.runs.plan import Site
from artos.runs.run_memory import RunMemory
from artos.runtime.answering import ServerRole
from artos.runtime.control import ControlServer
from artos.runtime.held import UNFIT
from artos.runtime.leased import LeasedRole
from artos.runtime.member import Role, Stopped, guarded
from artos.runtime.serving import (
    actor_role,
    any_learner_role,
    evaluator_role,
    failed_to_start,
    server_role,
)
from artos.specs.members import ACTORS, EVALUATOR, LEARNER, SERVER, Member
from artos.system.snapshot import (
    NotKept,
    Snapshot,
    global_streams,
    pickled,
    set_global_streams,
    unpickled,
)
from artos.version import VERSION
from head.run.asked import answered
from head.run.handover import States, states_in, unfit
from head.run.run import Run
from head.run.saved_books import resumed, saved
from triggers.engine import direct_passers

_IDLE_SECONDS = 0.05


def _no_branch(request: BranchRun) -> RunBranched:
    return RunBranched(
        fault="its actors are in the process of the run (--inline), and only actors that are "
        "processes of their own can be branched: start it without --inline"
    )


class Inline:
    """The members of a run as objects in this process, run in the order they were invoked.

    Implements ``Processes``.
    """

    def __init__(self, node: RunMemory, states: bytes = b"") -> None:
        self._node, self._states = node, states
        self._coordinator: Run | None = None
        self._halted = False
        self._roles: dict[Member, Role] = {}
        self._queue: deque[tuple[Member, Invoke]] = deque()
        self._to_set_up: deque[Member] = deque()
        self._free_since: dict[Member, float] = {}
        self._members, self._control = node.plan.members, ControlServer(node.board)
        everyone = (*self._members.hosted, *self._members.of(ACTORS))
        self.passers = direct_passers(self.queue, everyone)
        self._make: dict[str, Callable[[Site], Role]] = {
            LEARNER: lambda site: any_learner_role(
                node.plan,
                site,
                node.model_of(site.member.role),
                partial(self._report, site.member),
                self._told_to_stop,
            ),
            EVALUATOR: lambda site: evaluator_role(node.plan, site, lambda: None),
            ACTORS: lambda site: actor_role(node.plan, site, node.model, self._bell)[0],
            SERVER: lambda site: server_role(node.plan, site, lambda _: None),
        }

    def queue(self, member: Member, call: Invoke) -> None:
        """Queue an invocation."""
        self._queue.append((member, call))

    def waits_for_slot(self, member: Member) -> bool:
        """False: there are no slots."""
        return False

    def unplaced(self, member: Member) -> str:
        """Return "": every member lives in this process."""
        return ""

    def end(self, member: Member) -> None:
        """Drop the member and its queued invocations."""
        self._queue = deque(entry for entry in self._queue if entry[0] != member)
        if isinstance(role := self._roles.pop(member, None), LeasedRole):
            role.close()
        if self._members.role(member).samples:
            self._node.blocks[member.rank].recover()
            self._node.unpin(member.rank)

    def start(self, member: Member) -> None:
        """Set the member up again before anything else runs."""
        self._to_set_up.append(member)

    def prepare(self, member: Member, within: float = 0.0) -> None:
        """Set the actor up, unless it is already; there is no better time than now."""
        del within
        if member not in self._roles and member not in self._to_set_up:
            self._to_set_up.append(member)

    def retire(self, member: Member) -> None:
        """Do nothing: the actor holds no resource that others wait for, and keeps its episode."""

    def run(self, coordinator: Run, after: Callable[[], None]) -> None:
        """Set all members up and run one invocation after another until the run is finished."""
        self._coordinator = coordinator
        if self._states:
            try:
                self._go_on(coordinator, states_in(self._states, apart=False))
            except UNFIT as error:
                raise unfit(error) from error
        else:
            coordinator.begin()
            actors = (Member(ACTORS, actor) for actor in coordinator.actors)
            self._to_set_up.extend([*self._members.hosted, *actors])
        while not (coordinator.finished or self._halted):
            while self._to_set_up:
                self._set_up(coordinator, self._to_set_up.popleft())
            if (turn := self._next()) is not None:
                self._run_one(coordinator, *turn)
            elif not coordinator.finished:
                self._node.board.doorbell.wait(_IDLE_SECONDS)  # for a time trigger or a signal
            coordinator.tick()
            self._control.serve(lambda request: answered(coordinator, request, _no_branch))
            after()
        if self._halted:
            coordinator.ending.drain()

    def halt(self) -> bool:
        """Stop after the present invocation, with the others still to come. Safe in a handler."""
        self._halted = self._node.plan.checkpoint == "all"
        return self._halted

    # -- snapshots -----------------------------------------------------------------------------

    def snapshot(self) -> Snapshot | None:
        """What all members hold between two invocations."""
        if self._coordinator is None or self._members.publisher not in self._roles:
            return None
        members, lost = {}, []
        for member, role in self._roles.items():
            try:
                members[member] = pickled(role.snapshot())
            except NotKept as why:
                lost.append(f"{member} starts again: {why}")
        run, streams = saved(self._coordinator, self._queue), pickled(global_streams())
        states = States(run, tuple(self._roles), members, streams, VERSION)
        return Snapshot(msgspec.msgpack.encode(states), tuple(lost))

    def _go_on(self, coordinator: Run, found: States) -> None:
        left = resumed(coordinator, found.run)
        self._queue = left + self._queue  # where it goes on, withheld firings were queued already
        for member in found.set_up:
            self._set_up(coordinator, member)
        for member, state in found.members.items():
            self._roles[member].go_on(unpickled(state))
        set_global_streams(unpickled(found.streams))

    def _next(self) -> tuple[Member, Invoke] | None:
        """Take the next invocation that need not wait for room: one that waits would block all."""
        waiting: set[Member] = set()
        for at, (member, call) in enumerate(self._queue):
            if member in waiting:
                continue
            waits = self._members.role(member).samples and self._node.plan.on_full == "wait"
            block = self._node.blocks[member.rank] if waits else None
            if block is None or call.stop - block.written <= block.free():
                del self._queue[at]
                return member, call
            waiting.add(member)  # its later invocations keep their order
        return None

    def _set_up(self, coordinator: Run, member: Member) -> None:
        try:
            with user_imports(self._node.plan.reference.folder):
                site = msgspec.structs.replace(self._node.site, member=member)
                self._roles[member] = self._make[self._members.role(member).kind](site)
                self._free_since[member] = time.perf_counter()
        except (Exception, SystemExit) as error:
            coordinator.receive(member, failed_to_start(error))
            return
        device = getattr(self._roles[member], "device", "")
        coordinator.receive(member, Ready(0.0, device=device))
        coordinator.look(member)

    def _bell(self, server: str) -> Bell:
        """How an actor asks a server: it is called, and has answered when it returns."""

        def ring() -> None:
            role = self._roles[Member(server)]
            assert isinstance(role, ServerRole)
            role.answer_all()

        return Bell(ring)

    def _report(self, member: Member, waits: Waits) -> None:
        if self._coordinator is not None:
            self._coordinator.receive(member, waits)

    def _told_to_stop(self) -> bool:
        return self._halted or (self._coordinator is not None and self._coordinator.ending.draining)

    def _run_one(self, coordinator: Run, member: Member, call: Invoke) -> None:
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
        for role in self._roles.values():
            if isinstance(role, LeasedRole):
                role.close()
        self._roles.clear()
        self._queue.clear()
