"""A trigger fires, a member is invoked, its answer becomes events: all that a run decides.

Whatever else follows a run is a ``Concern``. ``ports.members`` start and end processes, so the same
coordinator runs a cluster, one machine and one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeGuard, TypeVar

from artos.buffer.mailbox import LEARNER, actor_member, actor_of
from artos.plan import Plan
from artos.protocol.invocations import Done, Failed, FromMember, Invoke, Ready, Waits
from artos.snapshot import put_back, taken
from artos.system.exit_report import ExitReport
from head.run.coordination.books import Claims, Invocations, Progress, Rounds
from head.run.coordination.concern import Concern
from head.run.coordination.ports import Ports
from head.run.coordination.roster import Roster
from head.run.monitor import Monitor
from head.run.objects import Objects
from triggers.engine import DirectPasser, Engine, TriggerWrapper
from triggers.events import Event, Firing, Joined, Published, Resumed
from triggers.pacing import non_publishing_targets
from triggers.table import Table
from triggers.targets import role_of

Any_ = TypeVar("Any_", bound=Concern)


class End(NamedTuple):
    """Why no more is sampled; ``updates``: nor is anything learned from what there is."""

    why: str
    updates: bool


class _Kept:
    """The books among a coordinator's attributes, for ``taken`` and ``put_back``."""

    kept: ClassVar[tuple[str, ...]] = (
        "version", "actors", "held", "withheld", "first_version", "monitor", "objects",
        "invocations", "claims", "rounds", "progress",
    )  # fmt: skip

    def __init__(self, run: Coordinator) -> None:
        self.__dict__ = run.__dict__


class Coordinator:
    """Turns what members do into events, and firings into invocations; ``connect`` makes one.

    ``base_steps`` were made by earlier parts of the run. ``version`` is the newest policy version
    that the triggers know of, ``actors`` take part now, and ``held`` has the version of the weights
    of each (-1: none). An actor will wait about ``idle`` seconds for its next round. Something last
    happened at ``moved``; since then triggers in ``vain`` fired by the clock and invoked nobody.
    Firings that were ``withheld`` are carried out if the run goes on from here with more budget.
    """

    def __init__(self, plan: Plan, ports: Ports, base_steps: int = 0) -> None:
        self.plan, self.ports = plan, ports
        self.non_publishing = non_publishing_targets(plan)
        self.monitor, self.objects = Monitor(), Objects(ports.objects)
        self.invocations, self.claims = Invocations(), Claims(self.non_publishing)
        self.rounds = Rounds(ports.blocks, plan.steps)
        self.progress = Progress(
            plan, base_steps, self.rounds, self.claims, self.invocations, self.monitor
        )
        self.roster = Roster(plan, ports)
        self.first_version, self.version = max(0, ports.model.version), -1
        self.actors, self.held = range(0), dict.fromkeys(ports.blocks, -1)
        self.idle = 0.0
        self.draining = False
        self.ending: End | None = None
        self.withheld: list[Firing] = []
        self.moved, self.vain = ports.clock.now(), set[str]()

    def wire(
        self,
        table: Table,
        destinations: Mapping[str, Callable[[Firing], None]],
        concerns: Sequence[Concern],
    ) -> None:
        """Bind triggers to what their firings are for (by target, or by role), and concerns."""
        self.concerns = concerns
        self._where = {t: destinations.get(t) or destinations[role_of(t)] for t in table}
        self.engine = Engine(
            [TriggerWrapper(t, table[t], DirectPasser(to)) for t, to in self._where.items()],
            self.ports.clock,
            self.ports.journal.fired,
        )
        self._admits = _overridden(Concern.admits, concerns)
        self._happened = _overridden(Concern.happened, concerns)
        self._invoked = _overridden(Concern.invoked, concerns)
        self._answered = _overridden(Concern.answered, concerns)

    def concern(self, kind: type[Any_]) -> Any_:
        """The concern of this kind."""
        return next(each for each in self.concerns if isinstance(each, kind))

    # -- begin and end -------------------------------------------------------------------------

    def begin(self) -> None:
        """Announce the actors to the triggers; deadlines for their start begin to run."""
        # A resumed run announces the version it continues from, not all that led to it.
        self.version = max(-1, self.published - 1)
        for actor, block in self.ports.blocks.items():
            if rows := block.written:
                self.rounds.begin(actor, rows)
                self.ports.row_source.rewind(actor, block.incarnation, rows)
                self.feed(Resumed(actor, rows))
        for actor in self.actors:
            self.feed(Joined(actor))
        self._start()

    def _start(self) -> None:
        for member in (LEARNER, *map(actor_member, self.actors)):
            self.roster.started(member)
        for concern in self.concerns:
            concern.begin()

    def drain(self) -> None:
        """Grant no more sampling and no evaluation; invocations in flight are finished."""
        self.draining = True

    def end(self, why: str, *, updates: bool = False) -> None:
        """Sample no more, as ``why`` says; ``updates``: also learn from nothing that is left."""
        if self.ending is None or (updates and not self.ending.updates):
            self.ending = End(why, updates)

    @property
    def ended_by(self) -> str:
        """What ended the sampling, such as a setting; "" if nothing did."""
        return self.ending.why if self.ending else ""

    @property
    def samples(self) -> bool:
        """Whether more rounds will be granted."""
        return not (self.draining or self.ending)

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
        if self.samples:
            return False
        if self.draining or (self.ending and self.ending.updates):
            left_out = self.draining and self.progress.steps <= self.progress.consumed
            return not self.roster.anybody_works(
                self.invocations, placed=True, but_waits=self.draining, but_late=left_out
            )
        return self.invocations.only(self.plan.evaluator)

    @property
    def finished(self) -> bool:
        """Whether the run is over."""
        return self.trained and all(concern.settled for concern in self.concerns)

    # -- what memory tells ---------------------------------------------------------------------

    @property
    def published(self) -> int:
        """The newest policy version that actors can have, whether or not it is announced yet."""
        return self.ports.model.version

    def look(self, member: int) -> None:
        """The member's counter changed: tell the triggers of its new rows or versions.

        The evaluator raises it with each episode, and has its full time again for the next one.
        """
        if member == LEARNER:
            self._look_for_versions()
        elif member == self.plan.evaluator:
            self.invocations.restamp(member, self.ports.clock.now())
        else:
            rows, events = self.ports.row_source.news(actor_of(member))
            self.rounds.wrote(actor_of(member), rows)
            for event in events:
                self.feed(event)

    def _look_for_versions(self) -> None:
        # Read first: the objects of an update are published before its weights, so none is missed.
        newest, firing = self.ports.model.made_by()
        for event in self.objects.news():
            self.feed(event)
        while self.version < newest:
            self.version += 1
            later = self.invocations.after(LEARNER, firing, self.non_publishing)
            name, ahead = self.ports.model.spec.name, later + newest - self.version
            self.feed(Published(name, self.version, ahead, self.progress.updates_through(firing)))

    def is_version(self, event: Event) -> TypeGuard[Published]:
        """Whether this is a new version of the weights, not of another object."""
        return isinstance(event, Published) and event.key == self.ports.model.spec.name

    def feed(self, event: Event) -> None:
        """Something happened in the buffer: check all triggers."""
        self._moved()
        for happened in self._happened:
            happened(event)
        self.engine.feed(event)

    def _moved(self) -> float:
        self.moved = now = self.ports.clock.now()
        self.vain.clear()
        return now

    # -- what triggers ask for -----------------------------------------------------------------

    def in_vain(self, firing: Firing) -> None:
        """A trigger fired, and nobody was invoked: the journal need not know."""
        self.ports.journal.take_back(firing.number)
        if firing.trigger in self.engine.clocks():
            self.vain.add(firing.trigger)

    def admits(self, firing: Firing) -> bool:
        """Whether all concerns admit a firing; if not, it is kept for a run that goes on here."""
        if all(admits(firing) for admits in self._admits):
            return True
        self.withheld.append(firing)
        return False

    def invoke(self, member: int, call: Invoke) -> None:
        """Have a member carry out an invocation, which is booked until it is answered."""
        if member not in self.roster.down:
            # Sent before it is booked, so that booking costs the member no time.
            self.ports.members.passers[member].pass_message(call)
        self.invocations.add(member, call, self.ports.clock.now())
        for invoked in self._invoked:
            invoked(member, call)

    # -- what members answer -------------------------------------------------------------------

    def receive(self, member: int, message: FromMember) -> None:
        """A member reported."""
        match message:
            case Ready():
                self._ready(member, message)
            case Waits() if member == LEARNER:  # its time to answer begins when the wait is over
                self.roster.told(member, message.what)
                self.invocations.restamp(member, self.ports.clock.now())
            case Done():
                self._done(member, message)
            case Failed():
                self.died(member, ExitReport(message.trace, message.step, fatal=message.fatal))
        self._see_whether_trained()

    def _see_whether_trained(self) -> None:
        if not self.samples and self.trained:
            for concern in self.concerns:
                concern.trained()

    def _ready(self, member: int, ready: Ready) -> None:
        now, seconds = self._moved(), self.roster.ready(member)
        if seconds is None:
            self.monitor.restarts += 1
        if member == LEARNER:
            self.monitor.device = ready.device
        self.ports.journal.ready(now, self.name_of(member), ready, seconds)
        self.invocations.restamp(member, now)

    def _done(self, member: int, done: Done) -> None:
        self.look(member)
        if (call := self.invocations.answer(member, done.firing)) is not None:
            self.invocations.touch(member, self.ports.clock.now())
            if actor_of(member) in self.held:
                self.held[actor_of(member)] = done.version
            self._book(member, call, done)

    def _book(self, member: int, call: Invoke, done: Done) -> None:
        facts: dict[str, Any] = {}
        for answered in self._answered:
            facts |= answered(member, call, done)
        now, name = self.ports.clock.now(), self.name_of(member)
        self.ports.journal.done(now, call.firing, name, seconds=done.seconds, **facts)

    # -- when members die, and time passes -----------------------------------------------------

    def died(self, member: int, death: ExitReport) -> None:
        """A member's process is gone: its committed rows and its finished work stay.

        Raises:
            ActorFailed, LearnerFailed: it failed too often in a row.
        """
        self.ports.members.end(member)
        self.roster.lost(member)
        self.look(member)
        self.book_finished(member)
        for concern in self.concerns:
            concern.failed(member, death)

    def book_finished(self, member: int) -> None:
        """Book invocations that a member finished just before it died, so no row is used twice."""
        for call in self.invocations.of(member):
            if not self._finished_before_death(member, call):
                return
            self.invocations.answer(member, call.firing)
            if member == LEARNER:
                self._book(member, call, Done(call.firing, self.published))
            else:
                now, name = self.ports.clock.now(), self.name_of(member)
                self.ports.journal.done(now, call.firing, name, recovered=True)

    def _finished_before_death(self, member: int, call: Invoke) -> bool:
        if member == LEARNER:
            made_by = self.ports.model.made_by()[1]
            return call in self.invocations.through(LEARNER, made_by)
        return bool(call.stop) and call.stop <= self.rounds.written_by(actor_of(member))

    def has_booked(self, firing: int) -> bool:
        """Whether the update of this firing is booked."""
        return not self.invocations.through(LEARNER, firing)

    def tick(self) -> None:
        """Check deadlines and time triggers; called about once a second and when one is due.

        Raises:
            DeadlineExceeded: nothing runs and nothing will; the message says who waits for what.
        """
        self.engine.tick()
        for concern in self.concerns:
            concern.tick()
        self._see_whether_trained()

    # -- for others to see ---------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Environment steps committed."""
        return self.progress.steps

    def name_of(self, member: int) -> str:
        """A member's name in messages and records."""
        if member == self.plan.evaluator:
            return "evaluator"
        return "learner" if member == LEARNER else f"actor {actor_of(member)}"

    def waits(self) -> dict[str, str]:
        """What each member waits for, in words."""
        members = [LEARNER, *map(actor_member, self.actors)]
        if (evaluator := self.plan.evaluator) is not None and evaluator not in self.roster.gone:
            members.append(evaluator)
        idle = {LEARNER: "rows", evaluator: "a version to evaluate"}
        version = f"version {self.version + 1}"
        return {
            self.name_of(m): self.roster.wait_of(m, self.invocations.of(m), idle.get(m, version))
            for m in members
        }

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
        for member in {member for member, _ in self.invocations}:
            self.invocations.restamp(member, now)
        self._start()
        withheld, self.withheld[:] = [*self.withheld], []
        for firing in withheld:
            self._where[firing.trigger](firing)

    def _parts(self) -> dict[str, Any]:
        concerns = {type(c).__name__: c for c in self.concerns if hasattr(c, "kept")}
        return {"run": _Kept(self), "engine": self.engine, "rows": self.ports.row_source} | concerns

    def __repr__(self) -> str:
        return f"<Coordinator {self.steps} steps, version {self.version}, {self.roster!r}>"


def _overridden(hook: Callable[..., Any], concerns: Iterable[Concern]) -> list[Callable[..., Any]]:
    """This hook of the concerns that override it, as events are many."""
    name = hook.__name__
    return [getattr(c, name) for c in concerns if getattr(type(c), name) is not hook]
