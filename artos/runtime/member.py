"""A member at work: it waits for an invocation, plays its role, and reports.

A role turns an invocation into rows (actor) or into a new version (learner).
"""

from __future__ import annotations

import math
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from artos.actors.context import ActorContext
from artos.buffer.actor_block import ActorBlock
from artos.buffer.binding import Binding, bound_of
from artos.buffer.copying import copy_into
from artos.buffer.desk import Desk
from artos.buffer.mailbox import Board
from artos.buffer.object_region import ObjectRegion
from artos.buffer.samplers.batch import Batch, BatchStore
from artos.buffer.samplers.drawn_batch import DrawnBatch, Sampler, bound_lag, drawn
from artos.buffer.samplers.episode_batch import EpisodeBatch
from artos.errors import (
    BadRow,
    DeadlineExceeded,
    NotFinite,
    NothingToSample,
    ReplicaLost,
)
from artos.learners.publisher import Publisher
from artos.pool.faults import DeviceTooSmall
from artos.protocol.invocations import (
    ALL,
    Branch,
    Branched,
    Done,
    Failed,
    FromMember,
    Invoke,
    Stop,
    ToMember,
    decode_to_member,
    encode,
)
from artos.protocol.lag import Drawn, OfOthers
from artos.runtime.taping import Cores, Tape
from artos.runtime.unwritten import Unwritten
from artos.specs.contracts import Actor, Learner, Wrote, fired_method
from artos.specs.keys import CONFIGURATION_KEY, PARAMS, VERSION_KEY
from artos.specs.kinds import known_kinds
from artos.specs.members import Member
from artos.system.snapshot import put_back, taken, taken_whole

if TYPE_CHECKING:  # with torch, which the learners of others do without
    from artos.runtime.branching import Branching
    from artos.runtime.device_meter import DeviceMeter
    from artos.runtime.other_learners import OtherLearners
    from artos.runtime.replica_group import ReplicaGroup

MOST_EPISODES = 1000
"""Episodes a round reports, the newest: more of them would not fit a mailbox."""
_IDLE_SECONDS = 3600.0
_LISTEN_SECONDS = 0.5
"""How often an actor that waits for room looks whether it was told to stop."""
_ROOM_SECONDS, _LOOK_SECONDS = 600.0, 0.02
"""For how long a member waits until the node takes its reports, and how often it looks."""
_UNWRITTEN = -1
"""In rows whose configuration an actor does not write by itself."""
_SHORT = (
    "sample wrote {} of {} rows: a round may have from one row to all of them, and fewer than all "
    "only where rows are handed over as whole episodes: let the table claim them by "
    "DataKeyTrigger(KEYS, sample=Episodes(n)), or write all"
)
_OTHERS_FIRST = 2.0
"""Seconds for which a replica that lost another one says nothing: the run is to learn the cause."""
TRACE_BYTES = 12_000
"""The end of a traceback that a report carries; it must fit a mailbox."""


class ActorRole:
    """Runs an actor: binds the newest weights, samples a round, commits it as one.

    It waits for room before it binds, so that rows are sampled with the newest weights.
    """

    def __init__(
        self,
        actor: Actor,
        context: ActorContext,
        model: ObjectRegion,
        others: OtherLearners | None = None,
        stopped: Callable[[], bool] | None = None,
    ) -> None:
        self._stopped = stopped
        self._actor, self._block = actor, context.block
        self._known = {c.name: c for c in known_kinds(actor, actor.changeable)}
        there = self._known and CONFIGURATION_KEY in self._block.arrays
        self._numbers = (CONFIGURATION_KEY,) if there else ()
        self._others, self._context = others, context
        self._branching: Branching | None = None
        self._reader = context.actor
        self._binding, self._unwritten = Binding(model), Unwritten(context.block)
        # Long enough for every restart of the learner, which may hold the rows.
        self._patience = 5 * context.plan.deadline
        # Rounds of which fewer rows are left were ended early, where that may be.
        self._least = context.plan.steps if context.plan.short_rounds else 0
        actor.setup(context)

    def step(self) -> int:
        """The step being sampled, if the actor says so, else rows committed so far."""
        return max(self._block.written, self._actor.step_number)

    def close(self) -> None:
        """Close what the actor holds open."""
        self._actor.close()

    def snapshot(self) -> dict[str, Any]:
        """What the actor holds between two invocations; to be pickled at once.

        Raises:
            NotKept: its class does not say what it holds.
        """
        return {
            "own": taken_whole(self._actor),
            "incarnation": self._block.incarnation,
            "asked": [desk.last for desk in self._desks],
            **self._held(),
        }

    def go_on(self, found: dict[str, Any]) -> None:
        """Sample on from a snapshot, as the process would that it is of."""
        put_back(self._actor, found["own"])
        self._block.incarnation = found["incarnation"]  # nobody can tell it from that writer
        for desk, number in zip(self._desks, found["asked"], strict=True):
            desk.last = number
        self._take(found)

    def branch(self, order: Branch, say: Callable[[Branched], None]) -> None:
        """Have the episode continued beside this process, which goes on."""
        if self._branching is None:
            from artos.runtime.branching import Branching  # noqa: PLC0415  # few actors are branched

            self._branching = Branching(self._actor, self._context, self._held, self._let_go)
        self._branching.branch(order, say)

    @property
    def _desks(self) -> Iterator[Desk]:
        return chain(*self._context.desks.values())

    def _held(self) -> dict[str, Any]:
        """What it has bound, copied."""
        return {
            "bound": self._binding.snapshot(),
            "others": self._others.snapshot() if self._others else {},
        }

    def _let_go(self, held: dict[str, Any]) -> None:
        """Go on, in a copy of the actor's process, with nothing that others may change or see."""
        self._block.segment.part()
        self._take(held)

    def _take(self, held: dict[str, Any]) -> None:
        if self._others:
            self._others.go_on(held["others"])
        if bound := held["bound"]:
            self._binding.go_on(bound)
            self._bind()

    def _bind(self) -> None:
        """Have the actor act with the versions that are bound."""
        slot, pasts = self._binding.slots[0], self._binding.pasts
        bound = replace(bound_of(slot), pasts=pasts, history=self._binding.region.spec.history)
        if self._others:
            objects = {**bound.objects, **self._others.objects}
            versions, pasts_of = self._others.versions, self._others.pasts
            bound = replace(bound, objects=objects, versions=versions, pasts_of=pasts_of)
        self._actor.bound = bound
        self._actor.bind(slot.arrays[PARAMS], slot.version)

    def _renew(self) -> None:
        # On its own, as a replay binds what was bound in the run (``deploy/replay/actors.py``).
        self._binding.renew(self._reader)

    def _allocate(self, rows: int) -> None:
        """Wait for room, and listen meanwhile for whether to stop, if anybody may say so.

        Raises:
            Stopped: the round was not begun.
            DeadlineExceeded: no room in time.
        """
        # Those that were waited are counted: a clock goes on while a container is stopped.
        seconds = min(_LISTEN_SECONDS, self._patience)
        for _ in range(math.ceil(self._patience / seconds)):
            try:
                self._block.allocate(rows, seconds)
            except DeadlineExceeded as late:
                if self._stopped is not None and self._stopped():
                    raise Stopped from None
                waited_for = late.waited_for
            else:
                return
        raise DeadlineExceeded(waited_for, self._patience)

    def _views(self, keys: Iterable[str], start: int, stop: int) -> Iterator[NDArray[Any]]:
        for key in keys:
            yield from self._block.views(key, start, stop)

    def _typed(self, call: Invoke) -> Invoke:
        """The call with what was set of the actor in its own types."""
        if not (self._known and call.settings):
            return call
        own = {n: self._known[n].value(v) for n, v in call.settings.items() if n in self._known}
        return msgspec.structs.replace(call, settings={**call.settings, **own})

    def run(self, call: Invoke) -> Done:
        """Bind if asked to, then sample up to row ``call.stop`` if the call is about rows."""
        if self._branching:
            self._branching.reap()
        start = self._block.written
        rows = max(0, call.stop - start)
        if rows < self._least:
            rows = 0  # its process was killed between the end of a short round and the answer
        times: dict[str, float] = {}
        seconds, began = 0.0, time.perf_counter()
        if rows:
            self._allocate(rows)
            began = _until_now(times, "wait_for_room", began)
        if call.bind or not self._binding.slots:
            if self._others:
                self._others.bind(self._reader)
            self._renew()
            self._bind()
            began = _until_now(times, "bind", began)
        if rows:
            self._unwritten.mark(start, rows)
            for view in self._views(self._numbers, start, start + rows):
                view[...] = _UNWRITTEN
            own = fired_method(self._actor, call.method)(start, rows, self._typed(call))
            if isinstance(own, Wrote):
                if not (0 < own.rows <= rows and (self._least or own.rows == rows)):
                    why = _SHORT.format(own.rows, rows)
                    raise BadRow(VERSION_KEY, self._reader, start, why)
                rows, own = own
            for view in self._views(self._numbers, start, start + rows):
                view[view == _UNWRITTEN] = call.configuration
            if self._others:
                self._others.note(self._block, start, start + rows)
            self._unwritten.check(start, rows)
            self._block.commit(start + rows)
            seconds = time.perf_counter() - began
            times |= complete_times(own, seconds, "sample")
        returns, lengths = self._actor.episodes()
        newest = slice(-MOST_EPISODES, None)
        return Done(
            call.firing,
            self._actor.version,
            {},
            times,
            tuple(returns[newest]),
            tuple(lengths[newest]),
            seconds,
            begun=tuple(self._actor.begun[newest]),
            agents=tuple(self._actor.agents_ended[newest]),
            beside=self._others.versions if self._others else {},
            written=self._block.written,
            untold=max(0, len(returns) - MOST_EPISODES),
        )


def complete_times(told: Mapping[str, float] | None, seconds: float, rest: str) -> dict[str, float]:
    """The seconds by kind that user code reports, if any; the others count as ``rest``."""
    told = told or {}
    left = max(0.0, seconds - sum(told.values()))
    return {**told, rest: told.get(rest, 0.0) + left}


def _until_now(times: dict[str, float], kind: str, began: float) -> float:
    """Store the seconds since ``began`` as those of ``kind``; returns the present time."""
    now = time.perf_counter()
    times[kind] = now - began
    return now


class LearnerRole:
    """Runs a learner: hands it the claimed rows, publishes what it changed.

    Weights and optimiser state live in the model block: a learner that finds a published version
    there goes on from that version, both after a crash and when a run is resumed. Rows of the
    blocks that are its ``own``, by default all, say by which of its versions they were made.
    """

    def __init__(
        self,
        learner: Learner,
        model: ObjectRegion,
        blocks: Mapping[int, ActorBlock],
        samplers: Mapping[str, Sampler] = MappingProxyType({}),
        meter: DeviceMeter | None = None,
        cores: Cores | None = None,
        publisher: Publisher | None = None,
        group: ReplicaGroup | None = None,
        *,
        own: Mapping[int, ActorBlock] | None = None,
        tape: Tape | None = None,
    ) -> None:
        self._group, self._tape = group, tape or Tape()
        self._meter, self._cores = meter, cores
        self._publisher = publisher or Publisher(weights=model)
        self._publisher.tape = self._tape
        if self._tape.tells:
            self._publisher.told = learner.version_published
        self._learner, self._model, self._blocks = learner, model, blocks
        self._samplers = samplers
        self._store, self._drawn = BatchStore(), Drawn(self._tape.looked)
        self._changed: dict[str, float] = {}
        for block in blocks.values():
            block.drawn = OfOthers(self._tape.looked)
        for block in (blocks if own is None else own).values():
            block.drawn = self._drawn  # the lag of drawn rows is that of the policy that acted
        self._non_publishing = frozenset(learner.non_publishing)
        self.residency = learner.residency
        if group is not None:  # the others may be set up in another way than the first one
            group.agree(learner.live().values())
        self._tape.begins(model)
        if model.version < 0:
            self._publisher.weights(learner.live())
            return
        model.restore(learner.live())
        learner.restored()
        if group is None or group.rank == 0:
            self._publisher.told(model.version)

    def _enter(self) -> None:
        if self.residency is not None:
            self.residency.enter()

    def snapshot(self) -> dict[str, Any]:
        """What the learner holds between two invocations; to be pickled at once."""
        self._enter()
        now, arrays = self._learner.live(), self._model.newest.arrays
        live = {name: np.empty_like(arrays[name]) for name in now}
        copy_into(live, now)
        samplers = {name: taken(sampler) for name, sampler in self._samplers.items()}
        own, fresh = self._learner.snapshot(), self._learner.fresh
        return {"live": live, "samplers": samplers, "own": own, "fresh": fresh}

    def go_on(self, found: dict[str, Any]) -> None:
        """Learn on from a snapshot, as the process would that it is of."""
        self._enter()
        copy_into(self._learner.live(), found["live"])
        self._learner.restored()
        if found["own"] is not None:
            self._learner.go_on(found["own"])
        self._learner.fresh = found["fresh"]
        for name, sampler in self._samplers.items():
            put_back(sampler, found["samplers"][name])

    def step(self) -> int:
        """The version published last."""
        return self._model.version

    def close(self) -> None:
        """Close the tape; all other state is in the model block."""
        self._tape.close()

    def _change(self, settings: Mapping[str, float]) -> None:
        """Have the learner go on with what was changed since its last invocation."""
        if changed := settings.items() - self._changed.items():
            learner = self._learner
            known = {each.name: each for each in known_kinds(learner, learner.changeable)}
            for name, value in changed:
                learner.change(name, known[name].value(value))
                self._changed[name] = value

    def run(self, call: Invoke) -> Done:
        """Run the learner's method on the rows claimed or drawn, if any; publish if it stepped.

        Steps of a non-publishing method are published by the next method that publishes. Where no
        row can be drawn the method is not called.

        Raises:
            NotFinite: a metric or a weight is NaN or infinite; nothing was published.
        """
        began, used = time.perf_counter(), time.process_time()
        if self._cores is not None:
            self._cores.begin()
        self._enter()
        self._tape.called(call)
        self._change(call.settings)
        self._drawn.begin(self._model.version)
        batch: Batch | EpisodeBatch | DrawnBatch | None = None
        try:
            if call.claims and call.claims[0].env == ALL:
                batch = Batch(self._blocks, call.claims, self._store)
            elif call.claims:
                batch = EpisodeBatch(self._blocks, call.claims)
            elif sampler := self._samplers.get(call.trigger):
                if call.max_lag is not None:
                    bound_lag(sampler, call.max_lag)
                draw = partial(drawn, sampler, self._model.version, call.progress)
                batch = draw() if self._group is None else self._group.drawn(draw)
        except NothingToSample as nothing:
            version, stale = self._model.version, self._drawn.stale
            return Done(call.firing, version, stale=stale, nothing=str(nothing))
        self._publisher.begin()
        method = fired_method(self._learner, call.method)
        told = self._tape.learn(method, self._learner, batch, call) or {}
        metrics = {name: float(value) for name, value in told.items()}  # also of numpy or torch
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise NotFinite(name, value, self._model.version)
        if self._group is not None:
            self._group.agree(self._learner.live().values())
        lags = self._drawn.take()
        unread = bool(lags) and isinstance(batch, Batch | EpisodeBatch) and not batch.was_read
        ended = time.perf_counter()
        times = complete_times(self._learner.seconds(), ended - began, "learn")
        if self._learner.fresh and call.method not in self._non_publishing:
            self._learner.fresh = False
            self._publisher.weights(self._learner.live(), call.firing)
            ended = _until_now(times, "publish", ended)
        self._publisher.end()
        seconds = ended - began
        if self._cores is not None:
            self._cores.look()
        return Done(
            call.firing,
            self._model.version,
            metrics,
            times,
            seconds=seconds,
            drawn=lags,
            unread=unread,
            stale=self._drawn.stale,
            device_idle=self._meter.updated(seconds) if self._meter else 0.0,
            cpu=time.process_time() - used,
        )


class Role(Protocol):
    """What runs in a member: an actor or a learner."""

    def run(self, call: Invoke) -> Done:
        """Carry out one invocation."""

    def step(self) -> int:
        """How far it got: rows written (actor) or the policy version (learner)."""

    def snapshot(self) -> dict[str, Any]:
        """What it holds between two invocations; to be pickled at once."""

    def go_on(self, found: dict[str, Any]) -> None:
        """Go on from a snapshot of such a role."""

    def close(self) -> None:
        """Close what user code holds open; called when the member is told to stop."""


class Stopped(BaseException):
    """The member was told to stop while its invocation waited, which was not begun."""


class Line:
    """A member's connection to its node: a mailbox down, a mailbox up, and the board's doorbell."""

    def __init__(self, board: Board, member: Member) -> None:
        self._board, self._member = board, member
        self._down, self._up = board.down(member), board.up(member)
        self._later: deque[ToMember] = deque()
        self.stop: Stop | None = None
        """What it was told when it was told to stop."""

    def receive(self, seconds: float) -> ToMember | None:
        """The next message from the node, or None if none came in time."""
        if self._later:
            return self._later.popleft()
        data = self._down.get(seconds)
        return None if data is None else self._decoded(data)

    def told_to_stop(self) -> bool:
        """Whether ``Stop`` has come. Never waits; whatever else came is received later."""
        while (data := self._down.take()) is not None:
            self._later.append(self._decoded(data))
        return self.stop is not None

    def _decoded(self, data: bytes) -> ToMember:
        message = decode_to_member(data)
        if isinstance(message, Stop):
            self.stop = message
        return message

    def wait(self, seconds: float) -> None:
        """Sleep until something rings here, a message or a request, or for so many seconds."""
        doorbell = self._down.doorbell
        if doorbell.wait(seconds):
            doorbell.drain()  # one look is for all that rang

    def send(self, message: FromMember) -> None:
        """Report to the node, as soon as it has taken enough of what was reported before.

        Raises:
            DeadlineExceeded: it has not made room in time.
            MailboxFull: the message never fits.
        """
        data, waited = encode(message), 0.0
        while not self._up.has_room(data):
            if waited >= _ROOM_SECONDS:
                what = f"room in mailbox {self._up.name}: the run takes no reports"
                raise DeadlineExceeded(what, _ROOM_SECONDS)
            time.sleep(_LOOK_SECONDS)
            waited += _LOOK_SECONDS  # no clock, as it goes on while a container is stopped
        self._up.put(data)
        self.notify()

    def notify(self) -> None:
        """Have the node look at what this member changed in shared memory."""
        self._board.notify(self._member)


def no_duties() -> float:
    """What a member has to do while no invocation comes: nothing, for so many seconds."""
    return _IDLE_SECONDS


def serve(role: Role, line: Line, idle: Callable[[], float] = no_duties) -> int:
    """Run invocations until told to stop; returns the exit status.

    While none comes ``idle`` is called, again after as many seconds as it says.

    If user code raises, the process reports that and ends; the supervising process decides
    whether there is another try.
    """
    while True:
        began = time.perf_counter()
        while (call := line.receive(idle())) is None:
            pass
        if isinstance(call, Stop):
            return 0
        if isinstance(call, Branch):
            assert isinstance(role, ActorRole)
            role.branch(call, line.send)
            continue
        waited = time.perf_counter() - began
        try:
            done = guarded(partial(role.run, call), call, role)
        except Stopped:
            return 0
        if isinstance(done, Failed):
            if done.others:
                time.sleep(_OTHERS_FIRST)  # or until this one is ended, with the others
            line.send(done)
            return 3
        done.times["wait"] = done.times.get("wait", 0.0) + waited
        line.send(done)


def guarded(run: Callable[[], Done], call: Invoke, role: Role) -> Done | Failed:
    """Run, and turn an exception of user code into a report that names the step."""
    try:
        return run()
    except (Exception, SystemExit) as error:
        step = error.step if isinstance(error, BadRow) else role.step()
        # The same rows and seeds would give the same NaN; the same wait would time out again.
        fatal = isinstance(error, DeadlineExceeded | NotFinite | DeviceTooSmall)
        others = isinstance(error, ReplicaLost)
        return Failed(call.firing, step, traceback.format_exc()[-TRACE_BYTES:], fatal, others)
