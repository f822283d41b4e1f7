"""The coordinator of one workload: turns firings into invocations and answers into events.

It decides and keeps the books. Its ``members`` start and end processes for it, so the same
coordinator runs a cluster, one machine and one process.
"""

from __future__ import annotations

from typing import Any

from artos.buffer.mailbox import LEARNER, actor_member, actor_of
from artos.protocol.invocations import Done, Failed, FromMember, Invoke, Ready, Waits
from artos.snapshot import put_back, taken
from artos.spec import EVALUATION
from artos.system.exit_report import ExitReport
from head.run.coordination.active_actors import check_number
from head.run.coordination.budget import UPDATES
from head.run.coordination.dispatcher import Dispatcher
from head.run.coordination.ports import Ports
from head.run.coordination.recovery import Recovery
from head.run.coordination.relocation import Relocation
from head.run.coordination.state import RunState
from head.run.monitor import Monitor, lags_of_claims
from triggers.base import Firing, Joined, Learned, Left, Published, Resumed
from triggers.engine import Engine
from triggers.prewarm import PREWARM
from triggers.wiring import fewest


class Coordinator:
    """Turns what members do into events for the triggers (paper §4.1); ``connect`` makes one."""

    def __init__(
        self,
        ports: Ports,
        state: RunState,
        recovery: Recovery,
        dispatcher: Dispatcher,
        engine: Engine,
    ) -> None:
        self.ports, self.state, self.engine = ports, state, engine
        self._recovery, self._dispatcher = recovery, dispatcher
        self._sampling = dispatcher.sampling
        self._relocation = Relocation(ports, state, engine)

    # -- state ---------------------------------------------------------------------------------

    @property
    def monitor(self) -> Monitor:
        """Counts and means of the run so far."""
        return self.state.monitor

    @property
    def steps(self) -> int:
        """See ``Progress.steps``."""
        return self.state.progress.steps

    @property
    def version(self) -> int:
        """The newest policy version that the triggers know of."""
        return self.state.announced

    @property
    def published(self) -> int:
        """The newest policy version that actors can have, whether or not it is announced yet."""
        return self.ports.model.version

    @property
    def actors(self) -> range:
        """The actors that take part now."""
        return self.state.active_actors.actors

    @property
    def draining(self) -> bool:
        """Whether no more sampling is granted although there is budget left."""
        return self._sampling.draining

    @property
    def finished(self) -> bool:
        """Whether nothing more will be granted, and all that was granted and evaluated is done."""
        evaluations = self.state.evaluations
        return self.trained and evaluations.settled and not evaluations.lacks(self.published)

    @property
    def trained(self) -> bool:
        """Whether actors and learner are done with all that was and will be granted.

        While draining, and after the last update, an actor that waits for room is not waited for,
        as only more updates would make that room, and neither is one without a place to run. While
        draining, neither is an actor that has not begun and whose round nobody lacks, nor an update
        that waits for its device. Before the first version there is nothing to finish or to save.
        """
        if self.version < 0:
            return self.draining and self.published < 0
        spent = self.state.budget.spent
        if self.draining or spent == UPDATES:
            return self._recovery.nobody_works(but_unplaced=True, but_waits=self.draining)
        return bool(spent) and self.state.invocations.only(self.state.evaluations.member)

    def has_booked(self, firing: int) -> bool:
        """Whether the update of this firing is booked."""
        return not self.state.invocations.through(LEARNER, firing)

    def drain(self) -> None:
        """Grant no more sampling and no evaluation; invocations in flight are finished."""
        self.state.evaluations.close()
        self._sampling.draining = True

    def waits(self) -> dict[str, str]:
        """What each member waits for, in words."""
        members = [LEARNER, *map(actor_member, self.actors)]
        evaluator = self.state.evaluations
        if evaluator.member is not None and not evaluator.failed:
            members.append(evaluator.member)
        return {self.state.name_of(member): self._recovery.wait_of(member) for member in members}

    # -- events from the node ------------------------------------------------------------------

    def begin(self) -> None:
        """Announce the actors to the triggers; deadlines for their start begin to run."""
        # A resumed run announces the version it continues from, not all that led to it.
        self.state.announced = max(-1, self.published - 1)
        for actor, block in self.ports.blocks.items():
            if rows := block.written:
                self.state.rounds.begin(actor, rows)
                self.ports.row_source.rewind(actor, block.incarnation, rows)
                self.engine.feed(Resumed(actor, rows))
        for actor in self.actors:
            self.engine.feed(Joined(actor))
        self._start()

    def _start(self) -> None:
        self.state.active_actors.begin()
        if self.state.evaluations.member is not None:
            self.state.active_actors.started(self.state.evaluations.member)

    def snapshot(self) -> dict[str, Any]:
        """The books of the run, between two events; to be pickled at once."""
        return {name: taken(part) for name, part in self._parts().items()}

    def go_on(self, found: dict[str, Any]) -> None:
        """Go on with books as another coordinator of this workload had them, where it stopped.

        Its invocations are still to be carried out.
        """
        for name, part in self._parts().items():
            put_back(part, found[name])
        now = self.ports.clock.now()
        for member in {member for member, _ in self.state.invocations}:
            self.state.invocations.restamp(member, now)
        self._start()
        self._dispatcher.again()

    def _parts(self) -> dict[str, Any]:
        rows, dispatcher = self.ports.row_source, self._dispatcher
        return {"state": self.state, "dispatcher": dispatcher, "engine": self.engine, "rows": rows}

    def look(self, member: int) -> None:
        """The member's counter changed: look for new rows or versions of it.

        The evaluator raises it with each episode, and has its full time again for the next one.
        """
        if member == LEARNER:
            self._published()
        elif member == self.state.evaluations.member:
            self.state.invocations.restamp(member, self.ports.clock.now())
        else:
            self._committed(actor_of(member))

    def _published(self) -> None:
        # Read first: the objects of an update are published before its weights, so none is missed.
        newest, firing = self.ports.model.made_by()
        for event in self.state.objects.news():
            self.state.standstill.moved(self.ports.clock.now())
            self.engine.feed(event)
        if self.version < newest:
            more = self.state.invocations.after(LEARNER, firing, self.state.non_publishing) > 0
            self.state.prewarming.published(newest - self.version, more=more)
        while self.version < newest:
            self.state.standstill.moved(self.ports.clock.now())
            if self.version >= self.state.first_version:
                self._end_round()
            self.state.announced += 1
            self._rescale()
            self._sampling.begin()
            later = self.state.invocations.after(LEARNER, firing, self.state.non_publishing)
            ahead = later + newest - self.version
            self._sampling.window.ahead = ahead
            updates = self.state.updates_through(firing)
            name = self.ports.model.spec.name
            self.engine.feed(Published(name, self.version, ahead, updates))

    def _end_round(self) -> None:
        held = [self.state.versions.held[actor] for actor in self.actors]
        self.monitor.took_part(len(held))
        if min(held) >= 0:
            self.monitor.round_ended(self.version, held)

    def _committed(self, actor: int) -> None:
        rows, events = self.ports.row_source.news(actor)
        if self.state.rounds.wrote(actor, rows) < rows:
            self.state.standstill.moved(self.ports.clock.now())
        for event in events:
            self.engine.feed(event)

    def receive(self, member: int, message: FromMember) -> None:
        """A member reported."""
        match message:
            case Ready():
                self._ready(member, message)
            case Waits() if member == LEARNER:
                self._recovery.told(member, message)
            case Done():
                self._done(member, message)
            case Failed():
                self.died(member, ExitReport(message.trace, message.step, fatal=message.fatal))
        self._evaluate_last()

    def _ready(self, member: int, ready: Ready) -> None:
        now, seconds = self.ports.clock.now(), self.state.active_actors.ready(member)
        self.state.standstill.moved(now)
        if seconds is None:
            self.monitor.restarts += 1
        self.ports.journal.ready(now, self.state.name_of(member), ready, seconds)
        self.state.invocations.restamp(member, now)
        if member == LEARNER:  # it may have published newer versions before this report is read
            self.monitor.device = ready.device
            self.state.learned = max(self.state.learned, self.state.first_version)

    def _done(self, member: int, done: Done) -> None:
        self.look(member)
        call = self.state.invocations.answer(member, done.firing)
        if call is None:
            return
        self._recovery.answered(member)
        self.state.invocations.touch(member, self.ports.clock.now())
        if member == LEARNER:
            self.state.standstill.moved(self.ports.clock.now())
            self._learned(call, done)
        elif member == self.state.evaluations.member:
            self._evaluated(member, done)
        else:
            self.state.versions.answered(actor_of(member), done.version)
            self._dispatcher.pulls.answered(member, self.version - done.version)
            self.monitor.sampled(
                actor_of(member), done.returns, done.lengths, done.times, self.steps
            )
            self.monitor.stepped(self.ports.clock.now() - done.seconds)
            self.state.prewarming.answered(done)
            costs = {"waited": done.waited, "restored": done.restored}
            facts = {name: round(seconds, 6) for name, seconds in costs.items() if seconds}
            self._note(done.firing, member, seconds=done.seconds, version=done.version, **facts)

    def _evaluated(self, member: int, done: Done) -> None:
        found = self.state.evaluations.answered(done)
        self.monitor.times.spend("evaluator", "evaluator", done.times)
        facts = {"version": found.version, "mean_return": found.mean_return}
        self._note(done.firing, member, seconds=done.seconds, **facts)
        self._dispatcher.evaluate()

    def _evaluate_last(self) -> None:
        """The version that training ends with is due, whatever its number."""
        if self.state.evaluations.lacks(self.published) and self.trained:
            self.engine.fire(EVALUATION, Firing(version=self.published))

    def _learned(self, call: Invoke, done: Done) -> None:
        # An update that publishes starts from the version before the one it makes.
        began, used = self.state.learned, () if done.unread else call.claims
        self.monitor.rows_stale += done.stale
        self.monitor.device_idle += done.device_idle
        if done.lost_lease:
            self._recovery.lost_lease(call, done)
        if done.nothing:
            self._found_nothing(call, done)
        elif call.trigger in self.state.non_publishing:
            self.monitor.helped(done.times)
            used = ()  # the update that follows is handed these rows, too
        else:
            self.monitor.learned(done.metrics, done.times)
            self.state.learned = done.version
            self.state.standstill.updated(call, done.version > began)
        lags = lags_of_claims(self.ports.blocks, used, began)
        facts = {"version": done.version} | self.monitor.learned_from(lags, done.drawn)
        facts |= {"nothing": done.nothing} if done.nothing else {}
        self._dispatcher.acknowledge(call.trigger, call.claims)
        self.engine.feed(Learned(call.trigger, drew=not done.nothing))
        self._note(done.firing, LEARNER, seconds=done.seconds, times=done.times, **facts)

    def _found_nothing(self, call: Invoke, done: Done) -> None:
        self.monitor.empty_draws += 1
        self.monitor.helped(done.times)
        self.state.standstill.found_nothing(call, done.nothing)

    def _note(self, firing: int, member: int, **facts: Any) -> None:
        name = self.state.name_of(member)
        self.ports.journal.done(self.ports.clock.now(), firing, name, **facts)

    # -- how many actors -----------------------------------------------------------------------

    def scale(self, actors: int) -> None:
        """Go on with so many actors from the next version on, new ones as soon as they are ready.

        Raises:
            CannotScale: more actors than are registered, or too few for a trigger.
        """
        table = {wrapper.trigger_id: wrapper.trigger for wrapper in self.engine.wrappers}
        check_number(actors, fewest(table), self.state.plan.actors)
        self.state.active_actors.scale(actors)

    def _rescale(self) -> None:
        """Let actors join and leave before a version is announced, so that its round is theirs."""
        monitor, before = self.monitor, len(self.actors)
        joined, left = self.state.active_actors.turn(
            self.version, monitor.metrics, monitor.mean_return, self.state.objects.values()
        )
        for actor in left:
            self.engine.feed(Left(actor, self.state.rounds.granted_to(actor)))
        for actor in joined:
            self.state.versions.joined(actor)
            # Actor 0 always takes part, so new actors begin with the round that it is at.
            self.engine.feed(Joined(actor, 0, self.state.rounds.granted_to(0)))
        if joined or left:
            self.state.prewarming.rescaled(before, len(self.actors))
            self.ports.journal.write(
                {"actors": self.state.active_actors.count, "version": self.version}
            )

    # -- when actors move ----------------------------------------------------------------------

    def place_anew(self, actor: int, term: int, committed: int, node: str) -> int:
        """The actor leaves a node; returns the first row of its next place (``term``).

        Rows that it ``committed`` and that did not arrive are lost: counted, journalled and sampled
        again.
        """
        self.look(actor_member(actor))
        lost = self._relocation.move(actor, term, committed, node)
        self.monitor.rows_lost += len(lost) * self.state.plan.envs
        return lost.start

    def restarting(self, member: int) -> None:
        """A member is started on another node without having failed; it reports ``Ready`` there."""
        self.state.active_actors.lost(member)
        self.state.active_actors.started(member)

    # -- when things die -----------------------------------------------------------------------

    def died(self, member: int, death: ExitReport) -> None:
        """A member died: keep its committed rows, restart it, and send its invocations again.

        Raises:
            ActorFailed, LearnerFailed: it failed too often in a row.
        """
        self.ports.members.end(member)
        self._recovery.died(member, death)
        self.look(member)
        self.book_finished(member)
        if self._recovery.needed(member):
            self.monitor.restarts += 1
        self._recovery.restart_due()

    def book_finished(self, member: int) -> None:
        """Book invocations that a member finished just before it died, so no row is used twice."""
        for call in self.state.invocations.of(member):
            if not self._finished_before_death(member, call):
                return
            self.state.invocations.answer(member, call.firing)
            if member == LEARNER:
                self._learned(call, Done(call.firing, self.published))
            else:
                self._note(call.firing, member, recovered=True)

    def _finished_before_death(self, member: int, call: Invoke) -> bool:
        if member == LEARNER:
            return call in self.state.invocations.through(LEARNER, self.ports.model.made_by()[1])
        return bool(call.stop) and call.stop <= self.state.rounds.written_by(actor_of(member))

    def tick(self) -> None:
        """Check deadlines and time triggers. Cheap; called about once a second and when one is due.

        Raises:
            DeadlineExceeded: nothing runs and nothing will; the message says who waits for what.
        """
        self.engine.tick()
        for member, death in self._recovery.late():
            self.died(member, death)
        self._recovery.restart_due()
        self._evaluate_last()
        idle = self.state.active_actors.all_ready and not self.trained
        if idle and self._recovery.nobody_works(but_pulls=True):
            clocks = self.engine.clocks() - {"actors.sync", EVALUATION, PREWARM}
            self.state.standstill.check(self.ports.clock.now(), clocks, self.waits)
