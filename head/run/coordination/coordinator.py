"""The coordinator of one workload: turns firings into invocations and answers into events.

It decides and keeps the books; what it wants done to processes it asks of its ``members``, so the
same coordinator runs a cluster, one machine and one process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from artos.buffer.actor_block import ActorBlock
from artos.buffer.board import LEARNER, actor_member
from artos.buffer.model_block import ObjectRegion
from artos.clock import Clock
from artos.plan import Plan
from artos.protocol.invocations import Claim, Done, Failed, FromMember, Invoke, Ready
from artos.spec import VERSION_KEY
from artos.system.exit_report import Death
from head.run.coordination.active_actors import Crew
from head.run.coordination.failures import Limits
from head.run.coordination.ledger import Claims, Invocations, Rounds
from head.run.coordination.members import Members
from head.run.coordination.pull_queue import Pulls
from head.run.coordination.recovery import Recovery, name_of
from head.run.coordination.relocation import Relocation
from head.run.coordination.row_events import Commits, Intake
from head.run.coordination.sampling import Sampling
from head.run.coordination.standstill import Standstill
from head.run.coordination.weight_versions import Bindings
from head.run.monitor import Monitor, lags_of_claims
from head.run.objects import Objects
from head.run.scaler import Scaler, check_number
from triggers.base import Firing
from triggers.engine import Engine
from triggers.events import Arrived, Joined, Left, Published
from triggers.journal import Journal
from triggers.wiring import fewest, method_of, silent_targets


class Coordinator:
    """Books and budget of one workload, and how many actors it has (paper §4.1).

    ``held_back`` says of a member whether its invocations wait for something that is not its own
    doing, e.g. for a free slot; ``homeless`` what it waits for, in words, while it has no place to
    run at.
    """

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
        scaler: Scaler | None = None,
        intake: Intake | None = None,
        objects: Mapping[str, ObjectRegion] = MappingProxyType({}),
    ) -> None:
        self.plan, self.blocks, self.model = plan, blocks, model
        self.objects = Objects(objects)
        self.monitor, self.base_steps = Monitor(), base_steps
        self.scaler = scaler or Scaler(plan)
        self._members, self._clock, self._journal = members, clock, journal
        self._limits = limits or Limits.within(plan.deadline)
        self._silent = silent_targets(plan)
        self._invocations, self._claims = Invocations(), Claims(self._silent)
        self._rounds = Rounds(blocks, plan.steps)
        self._first_version = max(0, model.version)
        self._crew = Crew(members, clock, self.scaler, self._first_version)
        self._recovery = Recovery(
            plan, blocks, members, self._crew, self._invocations, self._limits, clock, journal,
            held_back=lambda member: self.held_back(member),  # noqa: PLW0108  # they are set later
            homeless=lambda member: self.homeless(member),  # noqa: PLW0108
            in_place=intake is None or intake.in_place,
        )  # fmt: skip
        each_round = "actors.sync" not in plan.triggers
        self.bindings = Bindings(blocks, self._rounds, self._claims, each_round=each_round)
        self._version = self._learned_version = -1
        self._pulls = Pulls(self._invocations, self._invoke)
        self.sampling = Sampling(
            plan, model, self._rounds, self.bindings, self._invocations, self._pulls, base_steps
        )
        self._intake = intake or Commits(blocks, shipped="transfer" in plan.triggers)
        self._relocation = Relocation(plan, self._rounds, self._claims, self._intake, journal)
        self._standstill = Standstill(self._limits, clock.now())
        self.held_back: Callable[[int], bool] = lambda member: False
        self.homeless: Callable[[int], str] = lambda member: ""

    # -- state ---------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Environment steps committed, with those of earlier parts of a resumed run."""
        return self.base_steps + self._rounds.written * self.plan.envs

    @property
    def consumed(self) -> int:
        """Environment steps the learner is done with; all there are where it claims none."""
        rows = self._claims.consumed() if self.plan.consumers else self._rounds.written
        return self.base_steps + rows * self.plan.envs

    @property
    def version(self) -> int:
        """The newest policy version."""
        return self._version

    @property
    def published(self) -> int:
        """The newest policy version that actors can have, whether or not it is announced yet."""
        return self.model.version

    def has_booked(self, firing: int) -> bool:
        """Whether the books hold what went into the weights that this firing of a trigger made."""
        return not self._invocations.through(LEARNER, firing)

    @property
    def draining(self) -> bool:
        """Whether no more sampling is granted although there is budget left."""
        return self.sampling.draining

    @property
    def finished(self) -> bool:
        """Nothing more will be granted, and what was is done.

        Who waits for room that only more rounds of others would make is not waited for.
        """
        if self._version < 0:
            return False
        if self.draining:
            return self._recovery.nobody_works()
        return self.sampling.budget_spent and len(self._invocations) == 0

    @property
    def all_ready(self) -> bool:
        """Whether the learner and all actors that take part have reported that they are set up."""
        return self._crew.all_ready

    @property
    def actors(self) -> range:
        """The actors that take part now."""
        return self._crew.actors

    def drain(self) -> None:
        """Grant no more sampling; what is in flight is finished."""
        self.sampling.draining = True

    def waits(self) -> dict[str, str]:
        """Who waits for what, in words."""
        members, version = (LEARNER, *map(actor_member, self.actors)), self._version
        return {name_of(member): self._recovery.wait_of(member, version) for member in members}

    # -- events from the node ------------------------------------------------------------------

    def begin(self) -> None:
        """Announce the actors to the triggers; waiting for the first version begins."""
        # A resumed run announces the version it continues from, not all that led to it.
        self._version = max(-1, self.model.version - 1)
        for actor in self.actors:
            self.engine.feed(Joined(actor))
        self._crew.begin()

    def look(self, member: int) -> None:
        """Something of this member changed: see what it committed or published."""
        if member == LEARNER:
            self._published()
        else:
            self._committed(member - 1)

    def _published(self) -> None:
        # Looked up first: the objects of an update are there before its weights, so none is missed.
        newest, firing = self.model.made_by()
        for event in self.objects.news():
            self._standstill.moved(self._clock.now())
            self.engine.feed(event)
        while self._version < newest:
            self._standstill.moved(self._clock.now())
            if self._version >= self._first_version:
                self._end_round()
            self._version += 1
            self._rescale()
            self.sampling.begin(self.actors, self._version)
            later = self._invocations.after(LEARNER, firing, self._silent)
            ahead = later + newest - self._version
            self.sampling.window.ahead = ahead
            self.engine.feed(Published(self.model.spec.name, self._version, ahead))

    def _end_round(self) -> None:
        held = [self.bindings.held[actor] for actor in self.actors]
        self.monitor.took_part(len(held))
        if min(held) >= 0:
            self.monitor.round_ended(self._version, held)

    def _committed(self, actor: int) -> None:
        rows, events = self._intake.news(actor)
        if self._rounds.wrote(actor, rows) < rows:
            self._standstill.moved(self._clock.now())
        for event in events:
            self.engine.feed(event)

    def receive(self, member: int, message: FromMember) -> None:
        """A member reported."""
        match message:
            case Ready():
                self._ready(member, message)
            case Done():
                self._done(member, message)
            case Failed():
                self.died(member, Death(message.trace, message.step, fatal=message.fatal))

    def _ready(self, member: int, ready: Ready) -> None:
        now, seconds = self._clock.now(), self._crew.ready(member)
        self._standstill.moved(now)
        if seconds is None:
            self.monitor.restarts += 1
        self._journal.ready(now, name_of(member), ready, seconds)
        self._invocations.restamp(member, now)
        if member == LEARNER:  # started anew it may have made newer ones before this is heard
            self._learned_version = max(self._learned_version, self._first_version)

    def _done(self, member: int, done: Done) -> None:
        self.look(member)
        call = self._invocations.answer(member, done.firing)
        if call is None:
            return
        self._recovery.answered(member)
        self._invocations.touch(member, self._clock.now())
        if member == LEARNER:
            self._standstill.moved(self._clock.now())
            self._learned(call, done)
        else:
            self.bindings.answered(member - 1, done.version)
            self._pulls.answered(member, self._version - done.version)
            self.monitor.sampled(member - 1, done.returns, done.lengths, done.times, self.steps)
            self.monitor.stepped(self._clock.now() - done.seconds)
            self._note(done.firing, member, seconds=done.seconds, version=done.version)

    def _learned(self, call: Invoke, done: Done) -> None:
        # An update that publishes starts from the version before the one it makes.
        began, used = self._learned_version, () if done.unread else call.claims
        if call.trigger in self._silent:
            self.monitor.helped(done.times)
            used = ()  # the update that follows is handed them, too
        else:
            self.monitor.learned(done.metrics, done.times)
            self._learned_version = done.version
            self._standstill.updated(call, done.version > began)
        lags = lags_of_claims(self.blocks, used, began)
        facts = {"version": done.version} | self.monitor.learned_from(lags, done.drawn)
        self._acknowledge(call.trigger, call.claims)
        self._note(done.firing, LEARNER, seconds=done.seconds, times=done.times, **facts)

    def _acknowledge(self, consumer: str, claims: tuple[Claim, ...]) -> None:
        for claim in claims:
            self.blocks[claim.actor].acknowledge(consumer, *self._claims.done(consumer, claim))

    def _note(self, firing: int, member: int, **facts: Any) -> None:
        self._journal.done(self._clock.now(), firing, name_of(member), **facts)

    # -- how many actors -----------------------------------------------------------------------

    def scale(self, actors: int) -> None:
        """Go on with so many actors from the next version on, new ones as soon as they are ready.

        Raises:
            CannotScale: more than are registered, or too few for a trigger.
        """
        table = {wrapper.trigger_id: wrapper.trigger for wrapper in self.engine.wrappers}
        check_number(actors, fewest(table), self.plan.actors)
        self._crew.scale(actors)

    def _rescale(self) -> None:
        """Before a version is announced: who joins samples under it, who leaves does not."""
        monitor = self.monitor
        joined, left = self._crew.turn(
            self._version, monitor.metrics, monitor.mean_return, self.objects.values()
        )
        for actor in left:
            self.engine.feed(Left(actor, self._rounds.granted_to(actor)))
        for actor in joined:
            self.bindings.joined(actor)
            # Actor 0 always takes part: its rounds are those that the new ones fall in with.
            self.engine.feed(Joined(actor, 0, self._rounds.granted_to(0)))
        if joined or left:
            self._journal.write({"actors": self._crew.count, "version": self._version})

    # -- destinations of firings ---------------------------------------------------------------

    def invoke_learner(self, firing: Firing) -> None:
        """A learner trigger fired: hand over the rows it claimed."""
        if firing.dropped:
            self._claims.claim(firing.trigger, firing.dropped)
            self.monitor.rows_lost += sum(c.stop - c.start for c in firing.dropped) * self.plan.envs
            self._acknowledge(firing.trigger, firing.dropped)
            return
        if not firing.claims and self._invocations.includes(LEARNER, firing.trigger):
            self._in_vain(firing)  # a period that passed while the learner was busy
            return
        progress = min(1.0, self.consumed / self.plan.total_steps)
        method = method_of(firing.trigger)
        call = Invoke(firing.number, firing.trigger, method, firing.claims, progress=progress)
        self._invoke(LEARNER, call)
        self._claims.claim(firing.trigger, firing.claims)

    def invoke_actors(self, firing: Firing) -> None:
        """An actor trigger fired: grant rounds of sampling, or have weights pulled."""
        if not self.sampling.fire(firing, self.actors, self._version):
            self._in_vain(firing)

    def _in_vain(self, firing: Firing) -> None:
        if firing.trigger in self.engine.clocks():
            self._journal.take_back(firing.number)
            self._standstill.in_vain(firing.trigger)

    def transfer(self, firing: Firing) -> None:
        """A transfer trigger fired: head and worker share this machine's blocks, so rows arrive."""
        for claim in firing.claims:
            rows = dict.fromkeys((*firing.keys, VERSION_KEY), claim.stop)
            self.engine.feed(Arrived(claim.actor, rows, firing.version))

    def _invoke(self, member: int, call: Invoke) -> None:
        if not self._recovery.waits(member):
            # First, so that the books cost the member no time.
            self._members.passers[member].pass_message(call)
        self._invocations.add(member, call, self._clock.now())

    # -- when actors move ----------------------------------------------------------------------

    def place_anew(self, actor: int, term: int, committed: int, node: str) -> int:
        """The actor leaves a node; returns the row that it begins its next place (``term``) with.

        What it ``committed`` and nobody received is lost: counted, noted and sampled again.
        """
        self.look(actor_member(actor))
        lost = self._relocation.move(self.engine, actor, term, committed, node)
        self.monitor.rows_lost += len(lost) * self.plan.envs
        return lost.start

    def restarting(self, member: int) -> None:
        """A member that did no wrong is being started elsewhere; it reports ``Ready`` there."""
        self._crew.lost(member)
        self._crew.started(member)

    # -- when things die -----------------------------------------------------------------------

    def died(self, member: int, death: Death) -> None:
        """A member is gone: keep what it committed, start it anew, give it its work again.

        Raises:
            ActorFailed, LearnerFailed: it failed too often in a row.
        """
        self._members.end(member)
        self._recovery.died(member, death, self._version)
        self.look(member)
        self.book_finished(member)
        if self._recovery.needed(member):
            self.monitor.restarts += 1
        self._recovery.restart_due()

    def book_finished(self, member: int) -> None:
        """What a member finished just before it died counts as done, so no row is used twice."""
        for call in self._invocations.of(member):
            if not self._finished_before_death(member, call):
                return
            self._invocations.answer(member, call.firing)
            if member == LEARNER:
                self._learned(call, Done(call.firing, self.model.version))
            else:
                self._note(call.firing, member, recovered=True)

    def _finished_before_death(self, member: int, call: Invoke) -> bool:
        if member == LEARNER:
            return call in self._invocations.through(LEARNER, self.model.made_by()[1])
        return bool(call.stop) and call.stop <= self._rounds.written_by(member - 1)

    def tick(self) -> None:
        """Check deadlines and time triggers. Cheap; called about once a second and when one is due.

        Raises:
            DeadlineExceeded: nothing runs and nothing will; says who waits for what.
        """
        self.engine.tick()
        for member, death in self._recovery.late():
            self.died(member, death)
        self._recovery.restart_due()
        if self.all_ready and not self.finished and self._recovery.nobody_works(but_pulls=True):
            clocks = self.engine.clocks() - {"actors.sync"}
            self._standstill.check(self._clock.now(), clocks, self.waits)
