"""Actors of a replay: each does what the journal says, as far as its rows are needed."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from threadpoolctl import threadpool_limits

from artos.buffer.actor_block import ActorBlock
from artos.buffer.object_region import ObjectSlot
from artos.protocol.invocations import Invoke
from artos.runs.plan import Plan
from artos.runs.run_memory import RunMemory
from artos.runtime.member import ActorRole
from artos.runtime.serving import actor_context, prepared_actor
from artos.runtime.taping import share
from artos.specs.contracts import Actor
from artos.specs.members import ACTORS, ENV, Member
from artos.system.random_streams import own_streams
from artos.system.snapshot import Streams, global_streams, set_global_streams
from deploy.replay.difference import Difference, Differs, Over
from deploy.replay.script import Item, Round, Script, Started
from deploy.replay.versions import Versions
from head.run.concerns.recording import checksum
from triggers.targets import parsed


class _Role(ActorRole):
    """Binds the version that it bound in the run."""

    versions: Versions
    wanted: int

    def _newest(self) -> list[ObjectSlot]:
        return self.versions.bind(self.wanted)


class ReplayedActor:
    """One actor: its block, and what it is still to do."""

    def __init__(self, node: RunMemory, rank: int, script: Script, versions: Versions) -> None:
        self.member, self._node, self._script = Member(ACTORS, rank), node, script
        self._items: deque[Item] = script.actors.get(rank, deque())
        self._block: ActorBlock = node.blocks[rank]
        self._versions = versions
        self._role: _Role | None = None
        self._streams: Streams = {}

    def reach(self, rows: int) -> None:
        """Do what it did until it had so many rows.

        Raises:
            Differs: it does something else.
            Over: the journal ends before.
        """
        while self._block.written < rows:
            if not self._items:
                raise Over(f"the journal has no more of {self.member}")
            item = self._items.popleft()
            with self._alone():
                if isinstance(item, Started):
                    self._start(item)
                else:
                    self._carry_out(item)

    def keep(self, rows: int) -> None:
        """Have so many rows and no more, as the run had when it was resumed.

        Raises:
            Differs, Over: as ``reach``, or some of these rows are overwritten here.
        """
        self.reach(rows)
        if rows < self._block.written > self._block.spec.capacity:
            raise Over(f"rows of {self.member} that the run kept are overwritten")
        self._block.commit(rows)

    def close(self) -> None:
        """End its role."""
        if self._role is not None:
            self._role.close()
            self._role = None

    def _start(self, item: Started) -> None:
        self.close()
        plan, number = self._node.plan, item.incarnation
        site = msgspec.structs.replace(self._node.site, member=self.member)
        self._block.incarnation = number - 1
        actor: Actor = prepared_actor(plan)
        context = actor_context(plan, site)
        own_streams(context.seed)
        self._role = _Role(actor, context, self._node.weights)
        self._role.versions = self._versions

    def _carry_out(self, item: Round) -> None:
        if self._role is None:
            raise Over(f"the journal does not say how {self.member} was started")
        start, plan = self._block.written, self._node.plan
        self._make_room(item.stop - start)
        self._role.wanted = item.version
        try:
            done = self._role.run(self._invocation(item, plan))
        except Exception as error:  # whatever an environment raises
            what = f"raised {type(error).__name__} ({error})"
            raise self._differs(what, start, item.stop) from error
        if done.version != item.version:
            what = f"acted by version {done.version} instead of {item.version}"
            raise self._differs(what, start, item.stop)
        if item.rows is not None and checksum(self._block, start, item.stop) != item.rows:
            what = "wrote other rows"
            raise self._differs(what, start, item.stop)

    def _differs(self, what: str, start: int, stop: int) -> Differs:
        return Differs(Difference(str(self.member), what, step=start, until=max(start + 1, stop)))

    def _invocation(self, item: Round, plan: Plan) -> Invoke:
        target = self._script.firings[item.firing].trigger
        configuration = self._script.configurations[item.configuration]
        progress = share(item.steps, plan.total_steps) if item.progress is None else item.progress
        return Invoke(
            item.firing, target, parsed(target).method, stop=item.stop, bind=item.bind,
            progress=progress, steps=item.steps, settings=configuration.of(ENV),
            configuration=item.configuration,
        )  # fmt: skip

    def _make_room(self, rows: int) -> None:
        """Release what was released then: consumers that come later are not needed for that."""
        spec, written = self._block.spec, self._block.written
        released = written + rows + spec.history - spec.capacity
        for header in self._block.headers.values() if rows > 0 else ():
            header.set_released(max(header.released, released))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """As in a process of its own: its random streams, one thread, and numbers as they are."""
        torch = sys.modules["torch"]  # as it was when the learner was set up
        outer, threads = global_streams(), torch.get_num_threads()
        if self._streams:
            set_global_streams(self._streams)
        torch.set_num_threads(1)
        torch.set_flush_denormal(False)
        try:
            if threads > 1:
                with threadpool_limits(1):
                    yield
            else:
                yield
            self._streams = global_streams()
        finally:
            torch.set_flush_denormal(True)
            torch.set_num_threads(threads)
            set_global_streams(outer)
