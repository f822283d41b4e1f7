"""The coordinator of one workload: turns firings into invocations and answers into events.

It decides and keeps the books; what it wants done to processes it asks of its ``members``, so the
same coordinator runs a cluster, one machine and one process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from artos.buffer.actor_block import ActorBlock
from artos.buffer.board import LEARNER, actor_member
from artos.buffer.model_block import ObjectRegion
from artos.clock import Clock
from artos.errors import DeadlineExceeded
from artos.messages import Claim, Done, Failed, FromMember, Invoke, Ready, ToMember
from artos.plan import Plan
from artos.runtime.death import SLOW, Death
from artos.spec import VERSION_KEY
from head.failures import Failures, Limits
from head.ledger import Claims, Invocations
from head.monitor import Monitor
from triggers.base import Firing
from triggers.engine import Engine
from triggers.events import Arrived, Committed, Joined, Published
from triggers.journal import Journal
from triggers.wiring import method_of, samples


class Members(Protocol):
    """The processes (or inline parts) of a workload, as the coordinator sees them."""

    def send(self, member: int, message: ToMember) -> None:
        """Put a message into the member's mailbox."""

    def end(self, member: int) -> None:
        """Kill what is left of the member, so that nobody writes its memory any more."""

    def start(self, member: int) -> None:
        """Empty the member's mailbox and start it anew."""


class Coordinator:
    """Books, budget and recovery of one workload (paper §4.1, checklist A19)."""

    engine: Engine

    def __init__(
        self,
        plan: Plan,
        blocks: Mapping[int, ActorBlock],
        model: ObjectRegion,
        members: Members,
        clock: Clock,
        journal: Journal,
        *,
        base_steps: int = 0,
        limits: Limits | None = None,
    ) -> None:
        self.plan, self.blocks, self.model = plan, blocks, model
        self.monitor = Monitor()
        self.base_steps = base_steps
        self._members, self._clock, self._journal = members, clock, journal
        self._limits = limits or Limits.within(plan.deadline)
        self._invocations, self._claims = Invocations(), Claims()
        self._granted = dict.fromkeys(blocks, 0)
        self._written = dict.fromkeys(blocks, 0)
        # Running sums of both: asked for with every event, however many actors there are.
        self._granted_rows = self._rows = 0
        self._most_rounds = 1
        self._failures = Failures(self._limits)
        self._ready: dict[int, float] = {}
        self.bound: dict[int, int] = dict.fromkeys(blocks, -1)
        self._version = -1
        # Without an actors.sync of their own, actors take the newest weights at rollout start.
        self._binds = "actors.sync" not in plan.triggers
        self._transfers = "transfer" in plan.triggers
        self._draining = False
        self._last_event = clock.now()
        self._learned_version = -1
        self.on_restart: Callable[[str], None] = lambda text: None

    # -- state ---------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Environment steps committed, with those of earlier parts of a resumed run."""
        return self.base_steps + self._rows * self.plan.envs

    @property
    def consumed(self) -> int:
        """Environment steps the learner is done with; all there are where it claims none."""
        rows = self._claims.consumed() if self.plan.consumers else self._rows
        return self.base_steps + rows * self.plan.envs

    @property
    def version(self) -> int:
        """The newest policy version."""
        return self._version

    @property
    def settled(self) -> bool:
        """Whether the books hold exactly what went into the newest version."""
        return self._learned_version == self.model.version

    @property
    def budget_spent(self) -> bool:
        """Whether all steps of the budget are granted."""
        granted = self._granted_rows * self.plan.envs
        return self.base_steps + granted >= self.plan.total_steps

    @property
    def finished(self) -> bool:
        """Nothing is in flight and nothing more will be granted."""
        idle = len(self._invocations) == 0 and self._version >= 0
        return idle and (self._draining or self.budget_spent)

    @property
    def all_ready(self) -> bool:
        """Whether the learner and every actor have reported that they are set up."""
        return len(self._ready) == len(self.blocks) + 1

    def drain(self) -> None:
        """Grant no more sampling; what is in flight is finished."""
        self._draining = True

    def waits(self) -> dict[str, str]:
        """Who waits for what, in words."""
        found = {"learner": self._wait_of(LEARNER)}
        for actor in self.blocks:
            found[f"actor {actor}"] = self._wait_of(actor_member(actor))
        return found

    def _wait_of(self, member: int) -> str:
        if member not in self._ready:
            return "starting"
        calls = self._invocations.of(member)
        if calls:
            return f"running {calls[0].method} (firing {calls[0].firing})"
        return "rows" if member == LEARNER else f"version {self._version + 1}"

    # -- events from the node ------------------------------------------------------------------

    def begin(self) -> None:
        """Announce the actors to the triggers; waiting for the first version begins."""
        now = self._clock.now()
        # A resumed run announces the version it continues from, not all that led to it.
        self._version = max(-1, self.model.version - 1)
        for actor in self.blocks:
            self.engine.feed(Joined(actor))
        self._started = dict.fromkeys([LEARNER, *map(actor_member, self.blocks)], now)

    def look(self, member: int) -> None:
        """Something of this member changed: see what it committed or published."""
        self._last_event = self._clock.now()
        if member == LEARNER:
            self._published()
        else:
            self._committed(member - 1)

    def _published(self) -> None:
        queued = len(self._invocations.of(LEARNER))
        while self._version < self.model.version:
            if self._version >= 0 and min(self.bound.values()) >= 0:
                self.monitor.round_ended(self._version, self.bound.values())
            self._version += 1
            queued = max(0, queued - 1)
            self.engine.feed(Published(self.model.spec.name, self._version, queued))

    def _committed(self, actor: int) -> None:
        block = self.blocks[actor]
        written = {name: header.written for name, header in block.headers.items()}
        rows, seen = min(written.values()), self._written[actor]
        if rows == seen:
            return
        self._written[actor] = rows
        self._rows += rows - seen
        for stop, version in block.version_runs(max(seen, block.oldest()), rows):
            upto = written if stop == rows else dict.fromkeys(written, stop)
            self.engine.feed(Committed(actor, upto, version))
            if not self._transfers:
                self.engine.feed(Arrived(actor, upto, version))

    def receive(self, member: int, message: FromMember) -> None:
        """A member reported."""
        match message:
            case Ready():
                self._ready[member] = self._clock.now()
                self._invocations.restamp(member, self._clock.now())
                if member == LEARNER:
                    self._learned_version = max(self._learned_version, self._version)
            case Done():
                self._done(member, message)
            case Failed():
                self.died(member, Death(message.trace, message.step, fatal=message.fatal))

    def _done(self, member: int, done: Done) -> None:
        self.look(member)
        call = self._invocations.answer(member, done.firing)
        if call is None:
            return
        self._failures.answered(member)
        self._invocations.touch(member, self._clock.now())
        if member == LEARNER:
            self._learned(call, done)
        else:
            self.bound[member - 1] = done.version
            self.monitor.sampled(done.returns, done.lengths, done.times, self.steps)
            self._note(done.firing, member, version=done.version)

    def _learned(self, call: Invoke, done: Done) -> None:
        # An update that publishes starts from the version before the one it makes.
        began, self._learned_version = self._learned_version, done.version
        facts: dict[str, Any] = {"version": done.version}
        if call.claims:
            mean, largest = self.monitor.lag.consume(self._lags(call, began))
            facts |= {"lag_mean": round(mean, 4), "lag_max": largest}
        self.monitor.learned(done.metrics, done.times)
        self._acknowledge(call.trigger, call.claims)
        self._note(done.firing, LEARNER, **facts)

    def _lags(self, call: Invoke, version: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        rows = [
            view for c in call.claims
            for view in self.blocks[c.actor].views(VERSION_KEY, c.start, c.stop)
        ]  # fmt: skip
        return np.asarray(version - np.concatenate(rows), np.int64).clip(min=0)

    def _acknowledge(self, consumer: str, claims: tuple[Claim, ...]) -> None:
        for claim in claims:
            claimed, acknowledged = self._claims.done(consumer, claim)
            self.blocks[claim.actor].acknowledge(consumer, claimed, acknowledged)

    def _note(self, firing: int, member: int, **facts: Any) -> None:
        self._journal.done(self._clock.now(), firing, _name(member), **facts)

    # -- destinations of firings ---------------------------------------------------------------

    def invoke_learner(self, firing: Firing) -> None:
        """A learner trigger fired: hand over the rows it claimed."""
        if firing.dropped:
            self._claims.claim(firing.trigger, firing.dropped)
            self.monitor.rows_lost += sum(c.stop - c.start for c in firing.dropped) * self.plan.envs
            self._acknowledge(firing.trigger, firing.dropped)
            return
        if not firing.claims and self._busy_with(firing.trigger):
            return  # a period that passed while the learner was busy is not made up for
        progress = min(1.0, self.consumed / self.plan.total_steps)
        method = method_of(firing.trigger)
        call = Invoke(firing.number, firing.trigger, method, firing.claims, progress=progress)
        self._invoke(LEARNER, call)
        self._claims.claim(firing.trigger, firing.claims)

    def _busy_with(self, trigger: str) -> bool:
        return any(call.trigger == trigger for call in self._invocations.of(LEARNER))

    def invoke_actors(self, firing: Firing) -> None:
        """An actor trigger fired: grant rounds of sampling, or have weights pulled.

        An actor that still has as many rounds to sample as were ever granted at once gets no more.
        """
        self._most_rounds = max(self._most_rounds, firing.rounds)
        actors = tuple(self.blocks) if firing.actors is None else firing.actors
        for _ in range(firing.rounds):
            if samples(firing.trigger):
                if self._draining or self.budget_spent:
                    return
                self._sample(firing, actors)
            else:
                self._sync(firing, actors)

    def _sample(self, firing: Firing, actors: tuple[int, ...]) -> None:
        for actor in actors:
            ahead = self._granted[actor] - self._written[actor]
            if ahead >= self._most_rounds * self.plan.steps:
                continue
            self._granted[actor] += self.plan.steps
            self._granted_rows += self.plan.steps
            method, stop = method_of(firing.trigger), self._granted[actor]
            call = Invoke(firing.number, firing.trigger, method, stop=stop, bind=self._binds)
            self._invoke(actor_member(actor), call)

    def _sync(self, firing: Firing, actors: tuple[int, ...]) -> None:
        call = Invoke(firing.number, firing.trigger, method_of(firing.trigger), bind=True)
        for actor in actors:
            self._invoke(actor_member(actor), call)

    def transfer(self, firing: Firing) -> None:
        """A transfer trigger fired: head and worker share this machine's blocks, so rows arrive."""
        for claim in firing.claims:
            rows = dict.fromkeys((*firing.keys, VERSION_KEY), claim.stop)
            self.engine.feed(Arrived(claim.actor, rows, firing.version))

    def _invoke(self, member: int, call: Invoke) -> None:
        self._members.send(member, call)  # first, so that the books cost the member no time
        self._invocations.add(member, call, self._clock.now())

    # -- when things die -----------------------------------------------------------------------

    def died(self, member: int, death: Death) -> None:
        """A member is gone: keep what it committed, start it anew, give it its work again.

        Raises:
            ActorFailed, LearnerFailed: it failed too often in a row.
        """
        self._members.end(member)
        self._note_death(member, death)
        self.monitor.restarts += 1
        self._ready.pop(member, None)
        if member != LEARNER:
            self.blocks[member - 1].recover()
            self.model.unpin(member - 1)
        self.look(member)
        self._forget_finished(member)
        self._members.start(member)
        now = self._clock.now()
        self._started[member] = now
        self._invocations.restamp(member, now)
        for call in self._invocations.of(member):
            self._members.send(member, call)

    def _note_death(self, member: int, death: Death) -> None:
        step = self._progress(member) if death.step is None else death.step
        name = _name(member)
        self._journal.write({"died": name, "step": step, "why": death.why[-2000:]})
        count = self._failures.count(member, death, step)
        last = death.why.strip().splitlines()[-1]
        self.on_restart(f"{name} is restarted ({count} in a row): {last}")

    def _progress(self, member: int) -> int:
        return self._version if member == LEARNER else self.blocks[member - 1].written

    def _forget_finished(self, member: int) -> None:
        # What a member finished just before it died counts as done, so no row is used twice.
        for call in self._invocations.of(member):
            if not self._finished_before_death(member, call):
                return
            self._invocations.answer(member, call.firing)
            if member == LEARNER:
                self._learned(call, Done(call.firing, self._version))
            else:
                self._note(call.firing, member, recovered=True)

    def _finished_before_death(self, member: int, call: Invoke) -> bool:
        if member == LEARNER:
            return self.model.newest.firing == call.firing
        return bool(call.stop) and call.stop <= self.blocks[member - 1].written

    def tick(self) -> None:
        """Check deadlines and time triggers. Cheap; called about once a second and when one is due.

        Raises:
            DeadlineExceeded: nothing runs and nothing will; says who waits for what.
        """
        now = self._clock.now()
        self.engine.tick()
        for member, began in tuple(self._started.items()):
            if member not in self._ready and now - began > self._limits.start:
                self.died(member, Death(f"not ready within {self._limits.start:g} s: {SLOW}"))
        for member, call in tuple(self._invocations.overdue(now, self._limits.answer)):
            if self._waits_for_room(member, call):
                self._invocations.restamp(member, now)
            elif member in self._ready:
                what = f"{call.trigger} (firing {call.firing})"
                why = f"no answer to {what} within {self._limits.answer:g} s: {SLOW}"
                self.died(member, Death(why))
        self._check_stall(now)

    def _waits_for_room(self, member: int, call: Invoke) -> bool:
        # That is the learner's doing: it holds rows that this round would overwrite.
        if member == LEARNER or self.plan.on_full != "wait":
            return False
        block = self.blocks[member - 1]
        return block.free() < call.stop - block.written

    def _check_stall(self, now: float) -> None:
        stuck = not len(self._invocations) and not self.finished and self.all_ready
        if stuck and self.engine.due() is None and now - self._last_event > self._limits.stall:
            waits = "; ".join(f"{who} waits for {what}" for who, what in self.waits().items())
            raise DeadlineExceeded(f"any trigger to fire: {waits}", self._limits.stall)


def _name(member: int) -> str:
    return "learner" if member == LEARNER else f"actor {member - 1}"
