"""The loop that serves a run's members: learners and evaluator here, actors on any node."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Protocol

from artos.clock import Clock, Deadline
from artos.errors import CheckpointFault, NotBranched
from artos.protocol import control
from artos.protocol.invocations import Branch, Done, FromMember, Invoke, Stop, Waits
from artos.protocol.usage import Usage
from artos.runs.run_memory import RunMemory
from artos.runtime.branch_result import keep
from artos.runtime.control import ControlServer
from artos.runtime.held import HAND_OVER_SECONDS
from artos.runtime.loop import Loop
from artos.runtime.member_host import hosts
from artos.runtime.preload import Preloaded
from artos.specs.members import ACTORS, Member
from artos.system.child import start
from artos.system.exit_report import ExitReport
from artos.system.snapshot import Snapshot
from head.run.asked import answered
from head.run.concerns.recovery import Recovery
from head.run.handover import Handover
from head.run.run import Run
from triggers.engine import MessagePasser
from triggers.passers import Mailboxes, ToAll

_NO_ACTOR = "there is no actor {}: {} take part, 0 to {}"
_NO_ENV = "an actor has no environment {}: it has {}, 0 to {}"
_BRANCHES = "branches"
"""The folder, in that of a run, of what came of branches."""
STOP_SECONDS = 5.0
"""How long members may take to end by themselves."""


class Branches(Protocol):
    """Continues the episodes of actors beside them."""

    def ask(self, member: Member, order: Branch, tell: Callable[[bytes], None]) -> None:
        """Have an order carried out; ``tell`` what came of it, once, whatever that is.

        Raises:
            NotBranched, CheckpointFault: it cannot be given now; nothing will be told.
        """


class Actors(Protocol):
    """The actors' half of ``Processes``."""

    @property
    def branches(self) -> Branches:
        """Where orders to branch are given."""

    @property
    def passers(self) -> Mapping[Member, MessagePasser[Invoke]]:
        """The passer that carries invocations to each actor."""

    def start(self, member: Member) -> None:
        """Start the actor without anything that it was asked for before."""

    def end(self, member: Member) -> None:
        """Kill the actor's process, so that nothing writes its memory any more."""

    @property
    def prepare(self) -> Callable[..., None]:
        """Has an idle actor ready for its next invocation: it has a process when this is done."""

    @property
    def retire(self) -> Callable[[Member], None]:
        """Releases the resources of a prepared actor once it has no more invocations."""


class LocalActors(Actors, Protocol):
    """Actors that are processes of this machine; their process manager implements this."""

    def waits_for_slot(self, member: Member) -> bool:
        """Whether the actor's invocations wait for a free slot."""

    def reports(self, member: Member) -> Iterable[FromMember]:
        """What the member reported, oldest first."""

    def deaths(self) -> Iterable[tuple[Member, ExitReport]]:
        """Actors that died since the last call, and their exit reports."""

    def pids(self) -> Mapping[Member, int]:
        """Process id by member."""

    def tick(self) -> None:
        """Time passed."""

    def usage(self) -> Usage:
        """What the actors used so far."""

    def take_slots(self) -> None:
        """Give slots that other runs have left to the actors that wait for them."""

    def tell_to_stop(self, *, hand_over: bool = False) -> None:
        """Have each actor end once it has finished what it is doing; see ``Stop``."""

    def stop(
        self,
        seconds: float,
        undisturbed: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Let the actors end by themselves for ``seconds``, then kill them.

        May be interrupted, but for what it does ``undisturbed``, and called again.
        """


def _not_any_more(member: Member, within: float = 0.0) -> None:
    """The processes of actors have ended, and none is made."""
    del member, within


class Supervisor(Loop):
    """The members of a run and the loop that serves them; where the actors are is up to ``actors``.

    They go on from ``states``, if there are any. Implements ``Processes``.
    """

    def __init__(
        self,
        node: RunMemory,
        mail: Mailboxes,
        actors: Actors,
        clock: Clock,
        undisturbed: Callable[[], AbstractContextManager[None]] = nullcontext,
        preloaded: Preloaded | None = None,
        states: bytes = b"",
    ) -> None:
        super().__init__(node.board, clock, undisturbed)
        self._mail, self._actors, self._site = mail, actors, node.site
        self._hands_over = node.plan.checkpoint == "all"
        self._handover = Handover(node.site, states)
        self._control = ControlServer(node.board)
        begin = preloaded.start if preloaded else start
        self._hosts = hosts(node.site, node.plan_file, node.site.members.hosted, begin)
        # What the first of several replicas is asked for, all of them are.
        beside: dict[Member, MessagePasser[Invoke]] = {
            m: ToAll([mail.passers[each] for each in node.board.members.together(m)])
            for m in self._hosts
        }
        self.passers = {**beside, **actors.passers}
        self.prepare, self.retire = actors.prepare, actors.retire
        self._results = Path(node.site.logs).parent / _BRANCHES
        numbers = [each.stem for each in self._results.glob("*.json") if each.stem.isdigit()]
        self._branched = max(map(int, numbers), default=0)

    # -- Processes ---------------------------------------------------------------

    def end(self, member: Member) -> None:
        """Kill the member's process, if it has one."""
        if host := self._hosts.get(member):
            host.end()
        else:
            self._actors.end(member)

    def start(self, member: Member) -> None:
        """Start the member with an empty mailbox."""
        if host := self._hosts.get(member):
            self._mail.clear(member)
            for _ in self._mail.take(member):
                pass  # of a replica that was ended with another one: it makes the call again
            host.start()
        else:
            self._actors.start(member)

    # -- the loop ------------------------------------------------------------------------------

    def run(self, coordinator: Run, after: Callable[[], None]) -> None:
        """Start everything and serve until the coordinator is finished; see ``Loop.serve``.

        If all of the run is to be saved, the members have ended then, and have handed over what
        they held.
        """
        self._handover.lay_out()
        self._coordinator = coordinator
        with self._undisturbed():
            trains = [m for m in self._hosts if self._board.members.role(m).trains]
            others = [m for m in self._hosts if m not in trains]
            for member in trains:  # learners take longest
                self._hosts[member].start()
            self._begin(coordinator)
            for actor in range(coordinator.roster.prepared):
                self._actors.start(Member(ACTORS, actor))
            for member in others:
                self._hosts[member].start()
        self.serve(lambda: coordinator.finished, after)
        if self._hands_over:
            self._end_and_hand_over()

    def _begin(self, coordinator: Run) -> None:
        """Do what has to be done before any actor is started."""
        if not self._handover.begin(coordinator, [*self._hosts]):
            coordinator.begin()

    @abstractmethod
    def _actor_changed(self, member: Member) -> None:
        """An actor, or a guest of the board, raised its counter."""

    def _changed(self, member: Member) -> None:
        if member == self._control.member:
            self._mail.malformed += self._control.serve(self._change)
        elif member in self._hosts:
            self._beside_changed(member)
        else:
            self._actor_changed(member)

    def _beside_changed(self, member: Member) -> None:
        """A learner or the evaluator raised its counter."""
        if (members := self._board.members).follows(member):
            for message in self._mail.take(member):
                if isinstance(message, Done):  # the first replica answers for all
                    self._coordinator.monitor.helped(member, message.times)
                else:
                    waits = isinstance(message, Waits)
                    speaker = members.together(member)[0] if waits else member
                    self._coordinator.receive(speaker, message)
            return
        self._coordinator.look(member)
        for message in self._mail.take(member):
            self._coordinator.receive(member, message)

    def _follow_children(self) -> None:
        for member, host in self._hosts.items():
            if (death := host.reap()) is not None:
                told = self._told_that_it_failed(member, self._beside_changed)
                if not (told or host.lives):
                    self._coordinator.died(member, death)

    def _told_that_it_failed(self, member: Member, listen: Callable[[Member], None]) -> bool:
        """Hear the last messages of who has ended; whether that counted it as failed already.

        It may be started again only after a pause, so that it has no process does not say so.
        """
        recovery = self._coordinator.concern(Recovery)
        before = recovery.booked  # not restarts: who was started unasked says so, too
        listen(member)
        return recovery.booked > before

    def _tick(self) -> None:
        self._handover.look(self._coordinator)
        self._coordinator.tick()

    def _due(self) -> float | None:
        return self._coordinator.engine.due()

    def _change(self, request: control.LocalRequest) -> control.LocalReply:
        return answered(self._coordinator, request, self._branch)

    def _branch(self, request: control.BranchRun) -> control.RunBranched:
        """Have an actor's episode continued beside it."""
        actors, plan, faults = len(self._coordinator.actors), self._coordinator.plan, list[str]()
        if request.actor >= actors:
            faults.append(_NO_ACTOR.format(request.actor, actors, actors - 1))
        if request.env >= plan.envs:
            faults.append(_NO_ENV.format(request.env, plan.envs, plan.envs - 1))
        if request.weights:
            from artos.runtime import other_weights  # noqa: PLC0415  # loads what environments need

            run = Path(request.weights)
            own = run == self._results.parent.resolve()
            faults += other_weights.faults(run, plan, best=request.best, own=own)
        if faults:
            return control.RunBranched(fault="\n".join(faults))
        number = self._branched + 1
        result = self._results / f"{number}.json"
        result.parent.mkdir(exist_ok=True)
        order = Branch(
            str(self._site.branch_path(number)), request.times, request.env, request.steps,
            request.seed, request.greedy, tuple(sorted(os.sched_getaffinity(0))),
            weights=request.weights, best=request.best, seconds=request.seconds,
        )  # fmt: skip
        member = Member(ACTORS, request.actor)
        try:
            self._actors.branches.ask(member, order, partial(keep, result))
        except (NotBranched, CheckpointFault) as fault:
            return control.RunBranched(fault=str(fault))
        self._branched = number
        return control.RunBranched(f"{_BRANCHES}/{result.name}")

    # -- the end -------------------------------------------------------------------------------

    def halt(self) -> bool:
        """False: members that are processes of their own finish what they were asked for."""
        return False

    def snapshot(self) -> Snapshot | None:
        """What the members held when they ended; None before that."""
        return self._handover.snapshot(self._coordinator, [*self._hosts])

    def _end_and_hand_over(self) -> None:
        run, deadline = self._coordinator, Deadline(HAND_OVER_SECONDS)
        # What triggers still fire is booked, and asked for when the run goes on.
        run.roster.down.update(self._board.members)
        self.prepare = self.retire = _not_any_more
        self._end_actors(deadline)
        # Even if one actor took all the time there was.
        least = max(STOP_SECONDS, HAND_OVER_SECONDS / 2)
        self._stop_beside(max(least, deadline.left), hand_over=True)
        for member in self._hosts:
            for message in self._mail.take(member):
                if isinstance(message, Done) and not run.members.follows(member):
                    run.receive(member, message)
        self._handover.over = True

    @abstractmethod
    def _end_actors(self, deadline: Deadline) -> None:
        """Have the actors hand over what they hold and end, and book what they still answered."""

    @abstractmethod
    def usage(self) -> Usage:
        """What the actors used so far."""

    def _stop_beside(self, seconds: float = STOP_SECONDS, *, hand_over: bool = False) -> None:
        for member in self._hosts:
            self._mail.clear(member)
            held = str(self._site.held_path(member)) if hand_over else ""
            self._mail.passers[member].pass_message(Stop(held))
        deadline = Deadline(seconds)
        for host in self._hosts.values():
            host.stop(deadline.left)

    def _kill_beside(self) -> None:
        for host in self._hosts.values():
            host.stop(0.0)


class OneMachine(Supervisor):
    """The members of a run as processes of this machine, and the loop that serves them."""

    def __init__(
        self,
        node: RunMemory,
        mail: Mailboxes,
        actors: LocalActors,
        clock: Clock,
        undisturbed: Callable[[], AbstractContextManager[None]] = nullcontext,
        preloaded: Preloaded | None = None,
        states: bytes = b"",
    ) -> None:
        super().__init__(node, mail, actors, clock, undisturbed, preloaded, states)
        self._local_actors = actors

    def _end_actors(self, deadline: Deadline) -> None:
        self._local_actors.tell_to_stop(hand_over=True)
        self._local_actors.stop(deadline.left, self._undisturbed)
        for actor in range(self._coordinator.plan.actors):
            for message in self._mail.take(member := Member(ACTORS, actor)):
                if isinstance(message, Done):
                    self._coordinator.receive(member, message)

    def usage(self) -> Usage:
        """What the actors used so far."""
        return self._local_actors.usage()

    def waits_for_slot(self, member: Member) -> bool:
        """Whether the actor's invocations wait for a free slot."""
        return self._local_actors.waits_for_slot(member)

    def unplaced(self, member: Member) -> str:
        """Every member has a place: this machine."""
        return ""

    def _changed(self, member: Member) -> None:
        super()._changed(member)
        self._handover.look(self._coordinator)

    def _actor_changed(self, member: Member) -> None:
        if self._board.members.role(member).samples:
            self._coordinator.look(member)
        for message in self._local_actors.reports(member):
            self._coordinator.receive(member, message)

    def _take_mail(self) -> None:
        self._local_actors.take_slots()

    def _follow_children(self) -> None:
        super()._follow_children()
        for member, death in self._local_actors.deaths():
            told = self._told_that_it_failed(member, self._actor_changed)
            if not told and member not in self._local_actors.pids():
                self._coordinator.died(member, death)

    def _tick(self) -> None:
        super()._tick()
        self._local_actors.tick()

    def stop(self) -> None:
        """Tell all members to stop, wait for them, kill those that do not; reap all."""
        if self._handover.over:
            return
        self._local_actors.tell_to_stop()
        self._stop_beside()
        self._local_actors.stop(STOP_SECONDS, self._undisturbed)

    def kill(self) -> None:
        """End every member at once."""
        self._kill_beside()
        self._local_actors.stop(0.0)
