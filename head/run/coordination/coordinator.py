"""A trigger fires, a member is invoked, its answer becomes events: all that a run decides.

Whatever else follows a run is a ``Concern``; how members start and end is known to ``Processes``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from artos.protocol.invocations import Done, Failed, FromMember, Invoke, Ready, Waits
from artos.specs.members import Member
from artos.system.exit_report import ExitReport
from head.run.coordination.beginning import announce, start
from head.run.coordination.books import Claims, Invocations, Rounds
from head.run.coordination.concern import Concern, overriding
from head.run.coordination.ending import Ending
from head.run.coordination.outline import Outline
from head.run.coordination.ports import Ports
from head.run.coordination.progress import Progress
from head.run.coordination.roster import Roster
from triggers.base import Trigger
from triggers.engine import DirectPasser, Engine, TriggerWrapper
from triggers.events import Event, Firing, Published
from triggers.targets import parsed


class Coordinator:
    """Turns what members do into events, and firings into invocations."""

    def __init__(self, outline: Outline, ports: Ports, base_steps: int = 0) -> None:
        self.outline, self.ports, self.members = outline, ports, outline.members
        self.non_publishing = outline.non_publishing
        self.invocations, begun = Invocations(), {a: b.written for a, b in ports.blocks.items()}
        self.claims = Claims(outline.non_publishing, outline.parts, begun)
        self.learners = ports.versions(outline, self.invocations)
        self.first = self.learners[outline.members.publisher.role]
        """The learner whose weights actors act with."""
        self.rounds, self.objects = Rounds(begun, outline.steps), self.first.objects
        self.progress = Progress(outline, base_steps, self.rounds, self.claims, self.first)
        self.roster, self.ending = Roster(outline, ports), Ending(self)
        self.actors = range(0)
        """The actors that take part now."""
        self.held = dict.fromkeys(ports.blocks, -1)
        """The version of the weights that each actor has; -1: none."""
        self.withheld: list[Firing] = []
        """Firings that were not admitted: a run that goes on here with more budget makes them."""
        self.moved, self.vain = ports.clock.now(), set[str]()
        """When something happened last; clocks that fired in vain since, which is no progress."""
        for actor, rows in begun.items():  # of an earlier part of the run: they are not new
            ports.row_source.rewind(actor, ports.blocks[actor].incarnation, rows)

    def wire(
        self, table: Mapping[str, Trigger], destinations: Mapping[str, Callable[[Firing], None]],
        concerns: Sequence[Concern[Any]],
    ) -> None:  # fmt: skip
        """Say who serves firings, by target or by role, and what else follows the run."""
        self.concerns = concerns
        self._served = {t: destinations.get(t) or destinations[parsed(t).role] for t in table}
        wrappers = [TriggerWrapper(t, table[t], DirectPasser(self.fire)) for t in table]
        self.engine = Engine(wrappers, self.ports.clock, self.ports.journal.fired)
        self._admits, self._happened, self._invoked, self._answered = (
            overriding(hook, concerns)
            for hook in (Concern.admits, Concern.happened, Concern.invoked, Concern.answered)
        )

    def begin(self) -> None:
        """Announce the actors to the triggers; deadlines for their start begin to run."""
        announce(self)
        start(self)

    @property
    def finished(self) -> bool:
        """Whether the run is over."""
        return self.ending.look()

    @property
    def version(self) -> int:
        """The newest policy version that the triggers know of."""
        return self.first.told

    @property
    def published(self) -> int:
        """The newest policy version that actors can have, whether or not it is announced yet."""
        return self.ports.model.version

    def look(self, member: Member) -> None:
        """The member's counter changed: tell the triggers of its new rows or versions."""
        role = self.members.role(member)
        if not (role.publishes or role.samples):  # it shows that it lives: its time begins again
            self.invocations.restamp(member, self.ports.clock.now())
        elif role.samples:
            rows, events = self.ports.row_source.news(member.rank)
            self.rounds.wrote(member.rank, rows)
            for event in events:
                self.feed(event)
        else:
            for published in self.learners[member.role].news():
                self.feed(published)

    def is_version(self, event: Event) -> TypeGuard[Published]:
        """Whether this is a new version of the weights that actors act with."""
        return isinstance(event, Published) and event.key == self.first.key

    def feed(self, event: Event) -> None:
        """Something happened in the buffer: check all triggers."""
        self.moved = self.ports.clock.now()
        self.vain.clear()
        for happened in self._happened:
            happened(event)
        self.engine.feed(event)

    def fire(self, firing: Firing) -> None:
        """A trigger fired: what serves its target invokes members, if it is admitted."""
        self._served[firing.trigger](firing)

    def admits(self, firing: Firing) -> bool:
        """Whether all concerns admit a firing; if not, it is kept for a run that goes on here."""
        if all(admits(firing) for admits in self._admits):
            return True
        self.withheld.append(firing)
        return False

    def in_vain(self, firing: Firing) -> None:
        """A trigger fired, claimed nothing, and no one was invoked: the journal need not know."""
        self.ports.journal.take_back(firing.number)
        if firing.trigger in self.engine.clocks():
            self.vain.add(firing.trigger)

    def invoke(self, member: Member, call: Invoke) -> None:
        """Have a member carry out an invocation, which is booked until it is answered."""
        if member not in self.roster.down:
            # Sent before it is booked, so that booking costs the member no time.
            self.ports.processes.passers[member].pass_message(call)
        self.invocations.add(member, call, self.ports.clock.now())
        for invoked in self._invoked:
            invoked(member, call)

    def receive(self, member: Member, message: FromMember) -> None:
        """A member reported; of a process that was ended nothing comes here any more."""
        match message:
            case Ready():
                self.moved = now = self.ports.clock.now()
                self.vain.clear()
                seconds = self.roster.ready(member)
                for concern in self.concerns:
                    concern.ready(member, message, seconds)
                self.invocations.restamp(member, now)
            case Waits() if self.members.role(member).waits:
                # For example for a leased device: its time to answer begins when it has it.
                self.roster.told(member, message.what)
                self.invocations.restamp(member, self.ports.clock.now())
            case Done():
                self._done(member, message)
            case Failed():  # if it is ``fatal``, to start again is no help, and the run ends
                own, fatal = not message.others, message.fatal
                self.died(member, ExitReport(message.trace, message.step, own, fatal))
        self.ending.look()

    def _done(self, member: Member, done: Done) -> None:
        # What it wrote comes first: by the answer its rows are free, or its version is learned.
        self.look(member)
        if (call := self.invocations.answer(member, done.firing)) is not None:
            self.invocations.touch(member, self.ports.clock.now())
            if self.members.role(member).samples:
                self.held[member.rank] = done.version
            self._book(member, call, done)

    def _book(self, member: Member, call: Invoke, done: Done) -> None:
        prepares = done.nothing or call.trigger in self.non_publishing
        if self.members.role(member).publishes and not prepares:
            self.learners[member.role].updates += 1
        facts: dict[str, Any] = {}
        for answered in self._answered:
            facts |= answered(member, call, done)
        self._journal(member, call, seconds=done.seconds, **facts)

    def _journal(self, member: Member, call: Invoke, **facts: Any) -> None:
        self.ports.journal.done(self.ports.clock.now(), call.firing, str(member), **facts)

    def died(self, member: Member, death: ExitReport) -> None:
        """A member's process is gone: its committed rows and its finished work stay.

        ``Recovery`` starts it again, from the newest version or its last committed row. Then what
        it had not answered is sent again, and of a round it samples what is missing.

        Raises:
            MemberFailed: it failed too often in a row.
        """
        for each in (together := self.members.together(member)):  # replicas begin again together
            self.ports.processes.end(each)
            self.roster.lost(each)
        self.look(together[0])
        self.book_finished(together[0])
        for concern in self.concerns:
            concern.failed(member, death)

    def book_finished(self, member: Member) -> None:
        """Book invocations that a member finished just before it died, so no row is used twice."""
        # The newest version names the firing of its update; a round is over with its last row.
        role = self.members.role(member)
        made = self.learners[member.role].model.made_by() if role.publishes else (-1, 0)
        learned = self.invocations.through(member, made[1])
        for call in self.invocations.of(member):
            sampled = role.samples and 0 < call.stop <= self.rounds.written_by(member.rank)
            if not (sampled or call in learned):
                return
            self.invocations.answer(member, call.firing)
            if sampled:
                self._journal(member, call, recovered=True)
            else:
                self._book(member, call, Done(call.firing, made[0]))

    def tick(self) -> None:
        """Check deadlines and clocks; called about once a second and when a trigger is due.

        Raises:
            DeadlineExceeded: nothing runs and nothing will; the message says who waits for what.
        """
        self.engine.tick()
        for concern in self.concerns:
            concern.tick()
        self.ending.look()
