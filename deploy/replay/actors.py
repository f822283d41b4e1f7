"""Actors of a replay: each does what the journal says, as far as its rows are needed."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import msgspec
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from artos.buffer.actor_block import ActorBlock
from artos.buffer.desk import Bell
from artos.protocol.invocations import Invoke
from artos.runs.answers import Answers
from artos.runs.plan import Plan
from artos.runs.run_memory import RunMemory
from artos.runtime.held import hand_over, take_up
from artos.runtime.member import ActorRole
from artos.runtime.other_learners import OtherLearners
from artos.runtime.serving import actor_context, prepared_actor
from artos.runtime.taping import share
from artos.specs.contracts import Actor
from artos.specs.keys import MODEL_PARAM
from artos.specs.members import ACTORS, ENV, Member
from artos.system.random_streams import own_streams
from artos.system.snapshot import Streams, global_streams, set_global_streams
from deploy.replay.desks import RecordedDesk
from deploy.replay.difference import Difference, Differs, JournalEnds, Over
from deploy.replay.script import Item, Round, Script, Started
from deploy.replay.versions import Versions
from head.run.concerns.recording import checksum, large_sums
from triggers.targets import parsed

Before = Mapping[str, tuple[list[int], NDArray[Any]]]
"""Places of rows in the array of each key, and what was there."""


class Follower(Protocol):
    """Reads what actors write when it comes to that, which may be later."""

    def wrote(self, block: ActorBlock, start: int) -> None:
        """There are rows from ``start`` on."""


class _Role(ActorRole):
    """Binds the version that it bound in the run."""

    versions: Versions
    wanted: int

    def _renew(self) -> None:
        self._binding.slots = self.versions.bind(self.wanted)


class _Others(OtherLearners):
    """Does so with the versions of other learners."""

    versions_of: Mapping[str, Versions]
    wanted: Mapping[str, int]

    def bind(self, reader: int) -> None:
        for name, version in self.wanted.items():
            self._bindings[name].slots = self.versions_of[name].bind(version)


class ReplayedActor:
    """One actor: its block, and what it is still to do.

    ``versions`` are those of each learner. ``readers`` are told which rows it has written. With
    ``keep`` it can come back to so many rows. ``answers`` are those of each server.
    """

    def __init__(
        self,
        node: RunMemory,
        rank: int,
        script: Script,
        versions: Mapping[str, Versions],
        readers: Iterable[Follower] = (),
        keep: int | None = None,
        answers: Mapping[str, Answers] = MappingProxyType({}),
    ) -> None:
        self._answers = answers
        self.member, self._node, self._script = Member(ACTORS, rank), node, script
        self._items: deque[Item] = script.actors.get(rank, deque())
        self._block: ActorBlock = node.blocks[rank]
        self._versions, self._readers = versions, readers
        self._keep, self._saved, self._gone = keep, keep or 0, list[Before]()
        self._role: _Role | None = None
        self._others: _Others | None = None
        self._streams: Streams = {}
        self._compared = self._block.written
        """The row up to which large values are known to be as they were."""

    def reach(self, rows: int) -> None:
        """Do what it did until it had so many rows.

        Raises:
            Differs: it does something else.
            Over: the journal ends before.
        """
        while self._block.written < rows:
            if not self._items:
                raise JournalEnds(f"the journal has no more of {self.member}")
            self._go_on()

    def hand_over(self, path: Path) -> None:
        """Do all that it did, and write down what it holds then.

        Raises:
            Differs, Over: as ``reach``.
        """
        while self._items:
            self._go_on()
        if self._role is None:
            raise Over(f"the journal does not say how {self.member} was started")
        with self._alone():
            hand_over(self._role, path)

    def _go_on(self) -> None:
        item = self._items.popleft()
        if isinstance(item, Round):
            self._versions[self._node.plan.learner].have(item.version)
            for name, version in item.beside.items():
                self._versions[name].have(version)
        with self._alone():
            if isinstance(item, Started):
                self._start(item)
            else:
                self._carry_out(item)

    def go_back(self) -> None:
        """Have so many rows as are to be kept, with those before that others took the place of.

        Raises:
            Differs, Over: as ``reach``.
        """
        if self._keep is None:
            return
        self.reach(self._keep)
        for before in reversed(self._gone):
            self._put_back(before)
        self._block.commit(self._keep)
        for header in self._block.headers.values():
            header.set_reserved(self._keep)

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
        context = actor_context(plan, site, lambda _: Bell(lambda: None))
        desks = {
            server.name: [
                RecordedDesk(
                    server, self._answers[server.name], self.member.rank, seat, context.incarnation
                )
                for seat in range(server.seats)
            ]
            for server in plan.servers
        }
        context = replace(context, replays=True, desks=desks)
        own_streams(context.seed)
        self._others = None
        if plan.read_learners:
            regions = {name: self._node.beside[name][MODEL_PARAM] for name in plan.read_learners}
            self._others = _Others(plan, actor.reads, regions)
            self._others.versions_of = self._versions
        self._role = _Role(actor, context, self._node.weights, self._others)
        self._role.versions = self._versions[plan.learner]
        take_up(self._role, site.held_path(self.member))

    def _carry_out(self, item: Round) -> None:
        if self._role is None:
            raise Over(f"the journal does not say how {self.member} was started")
        start, plan = self._block.written, self._node.plan
        self._make_room(item.stop - start)
        self._role.wanted = item.version
        if self._others is not None:
            self._others.wanted = item.beside
        self._save_kept(item.stop)
        before = {} if item.kept is None else self._overwritten(item.kept, item.stop)
        try:
            done = self._role.run(self._invocation(item, plan))
        except Over:
            raise
        except Exception as error:  # whatever an environment raises
            what = f"raised {type(error).__name__} ({error})"
            raise self._differs(what, start, item.stop) from error
        if done.version != item.version:
            what = f"acted by version {done.version} instead of {item.version}"
            raise self._differs(what, start, item.stop)
        if done.beside != item.beside:
            what = f"acted by versions {done.beside} of others instead of {item.beside}"
            raise self._differs(what, start, item.stop)
        if item.kept is not None:
            self._put_back(before)
            self._block.commit(item.kept)
        self._compare(item, start)
        for reader in self._readers:
            reader.wrote(self._block, start)

    def _compare(self, item: Round, start: int) -> None:
        rows, recorded = self._block.written - start, max(0, item.end - start)
        if rows != recorded and (item.rows, item.ended) != (None, None):
            what = f"wrote {rows} rows instead of {recorded}"
            raise self._differs(what, start, item.end)
        what = "wrote other rows"
        # First the large values, which say of which step: others of it mostly differ with them.
        if item.large and (found := large_sums(self._block, start, item.end)) != item.large:
            pairs = enumerate(zip_longest(found, item.large))
            row = start + next(at for at, (now, then) in pairs if now != then) // 2
            # Of rounds before it there may be no sums.
            raise self._differs(what, self._compared if row == start else row, row + 1)
        if item.rows is not None and checksum(self._block, start, item.end) != item.rows:
            raise self._differs(what, start, item.end)
        if item.large:
            self._compared = item.end

    def _save_kept(self, stop: int) -> None:
        """Save the rows to go back to whose places those before ``stop`` take, each once."""
        if self._keep is None:
            return
        stop = min(stop, self._keep + self._block.spec.capacity)
        if stop > self._saved:
            self._gone.append(self._overwritten(self._saved, stop))
            self._saved = stop

    def _overwritten(self, first: int, stop: int) -> Before:
        """What is where rows ``first`` to ``stop`` are to be, by key."""
        block = self._block
        places = [block.index(row) for row in range(first, stop)]
        return {name: (places, array[places]) for name, array in block.arrays.items()}

    def _put_back(self, before: Before) -> None:
        for name, (places, values) in before.items():
            self._block.arrays[name][places] = values

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
        outer = global_streams()
        if self._streams:
            set_global_streams(self._streams)
        try:
            with _one_thread():
                yield
            self._streams = global_streams()
        finally:
            set_global_streams(outer)


@contextmanager
def _one_thread() -> Iterator[None]:
    torch = sys.modules.get("torch")  # as it was when the learner was set up, if it needs it
    if torch is None:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(False)
    try:
        if threads > 1:
            with threadpool_limits(1):
                yield
        else:
            yield
    finally:
        torch.set_flush_denormal(True)
        torch.set_num_threads(threads)
