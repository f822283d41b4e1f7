"""The process manager of a run on a node: the life of its actor processes (paper §3.3, §4.3).

An actor runs only while it holds a slot, and its invocations wait here until it has one. When it
has answered, it gives the slot back and is parked: asleep, frozen, or as an image.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from msgspec.structs import replace

from artos.clock import Clock, Deadline
from artos.protocol.invocations import Branched, Done, Failed, Invoke, Ready, Report, Stop
from artos.protocol.usage import Usage
from artos.runtime.held import Held
from artos.specs.members import ACTORS, Member
from artos.system.exit_report import ExitReport
from triggers.engine import direct_passers
from triggers.passers import Mailboxes
from workers.actors.actor_record import ActorRecord, State
from workers.actors.branches import Branches
from workers.actors.idle_tiers import IdleTiers
from workers.actors.last_end import end_images
from workers.actors.moves import Moves
from workers.actors.newcomers import Newcomers
from workers.actors.spawners.spawner import Place, Spawner
from workers.actors.turns import Turns
from workers.actors.usage import Accounts
from workers.host.slots import Slot, SlotTable

_log = logging.getLogger(__name__)


class ProcessManager:
    """Starts a workload's actors, gives them slots in turn, parks them, notices their deaths.

    ``mail`` are the node's mailboxes. ``recover`` repairs, for its next process, the memory of an
    actor that was killed.

    No method waits, except ``stop`` and ``end``. ``deaths`` finishes starts, dumps and restores;
    call it whenever a child of this process has ended.
    """

    def __init__(
        self,
        place: Place,
        mail: Mailboxes,
        recover: Callable[[int], None],
        spawner: Spawner,
        slots: Sequence[Slot],
        table: SlotTable[Member],
        tiers: IdleTiers,
        accounts: Accounts,
        clock: Clock,
        *,
        pin: bool = True,
    ) -> None:
        self._place, self._mail, self._recover = place, mail, recover
        self.spawner, self._cpus, self._slots, self._tiers = spawner, slots, table, tiers
        self.accounts, self._clock = accounts, clock
        self.images = tiers.checkpointer  # packs and unpacks actors' images
        self.criu = tiers.criu  # the version of CRIU that makes images, "" if none can be made
        members = place.site.members.of(ACTORS)
        self._records = {member: ActorRecord(member) for member in members}
        self.passers = direct_passers(self.send, self._records)
        self._newcomers = Newcomers(len(slots), self._spawn, accounts, clock)
        self._turns = Turns(
            self._records, place, mail, slots, table, tiers, accounts, clock, self.start, pin=pin
        )
        self.branches = Branches(
            self._records, mail, self.prepare, place.path_of, self.images if self.criu else None,
            clock,
        )  # fmt: skip
        self.moves = Moves(self._records, place, mail, self._turns, tiers, self.branches, clock)
        """How actors leave for other nodes, and come from there."""
        self._one_has_ended = False

    # -- what the coordinator asks for ---------------------------------------------------------

    def start(self, member: Member) -> None:
        """Empty the actor's mailbox and spawn its process, which reports ``Ready`` when set up.

        One that has been given a process meanwhile, for instance to be branched, keeps that.
        """
        self._newcomers.leave(member)
        if self._records[member].state is State.COLD:
            self._spawn(member)

    def send(self, member: Member, call: Invoke) -> None:
        """Have an invocation carried out as soon as the actor holds a slot."""
        record = self._records[member]
        self._newcomers.leave(member)
        record.add_call(call, self._clock.now())
        self.spawner.hurry(member)
        self._turns.request_slot(record)

    def prepare(self, member: Member, within: float = 0.0) -> None:
        """Have a process made for an actor that will be used in so many seconds, if it has none."""
        record = self._records[member]
        record.recall()
        if within and (record.state is State.COLD or member in self._newcomers):
            self._newcomers.expect(member, within)
            return
        self._newcomers.leave(member)
        if record.state is State.COLD:
            self.start(member)
        elif record.state is State.CHECKPOINTED:
            self._turns.restore(record)
        elif record.state is State.DUMPING:
            self._tiers.hurry(record)  # it is restored after that
        elif record.state is State.FROZEN and record.branches:
            self._tiers.thaw(record)

    def retire(self, member: Member) -> None:
        """Have an actor that is used no longer wait, once it is done, without using anything."""
        record = self._records[member]
        record.retire()
        self._newcomers.leave(member)
        if record.state is State.FROZEN and not record.busy:
            self._tiers.thaw(record)  # it may become an image now
        if record.state is State.PARKED and not record.busy:
            self._turns.leave_slot(member)  # kept between rounds where actors are never parked
            self._turns.park(record)
            self._turns.grant()

    def take_slots(self) -> None:
        """Give slots that other runs have left to the actors that wait for them. Never waits."""
        self._turns.grant()

    def limit_slots(self, slots: int) -> None:
        """Have at most so many actors run at once from now on; those that run go on."""
        self._turns.limit(slots)

    def end(self, member: Member) -> None:
        """Kill an actor's process and forget its invocations and its image.

        A commit that was cut short is finished, and the actor's pin of the weights dropped.
        """
        record = self._records[member]
        self.spawner.withdraw(member)
        self._newcomers.leave(member)
        self._tiers.release(record)
        if record.child is not None:
            self.accounts.unwatch(record.actor)
            record.child.kill()
        self._turns.leave_slot(member)
        self._turns.under_way.discard(member)
        self.branches.lost(member)
        record.end()
        self._recover(record.actor)
        self._one_has_ended = True
        self._turns.grant()
        self.step()

    # -- what happens --------------------------------------------------------------------------

    def reports(self, member: Member) -> Iterator[Report]:
        """An actor's reports, oldest first; the template's reports go to the spawner instead."""
        for message in self._mail.take(member):
            if (record := self._records.get(member)) is None:
                self.spawner.heard(message)
                self.step()
            elif isinstance(message, Branched):
                self.branches.heard(member, message)
            else:
                if isinstance(message, Failed) and record.kind == "state":
                    yield replace(message, fatal=False)  # from the start it may well work
                elif not (isinstance(message, Ready) and record.stayed):
                    yield record.with_costs(message) if isinstance(message, Done) else message
                # After the caller has reacted: a new invocation keeps the actor from being parked.
                if isinstance(message, Ready) and record.state is State.STARTING:
                    record.started()
                    self.spawner.ready(member)
                    self.accounts.started(record.kind, self._clock.now() - record.begun)
                    self._newcomers.ready(member)
                    self._turns.resume(record)
                    self.step()
                elif isinstance(message, Done) and record.unanswered:
                    record.answered()
                    # One that died meanwhile may have left an answer: its end is reported apart.
                    if not record.unanswered and record.state is State.RUNNING:
                        self._turns.end_turn(record)

    def step(self) -> None:
        """Finish the starts, dumps and restores that are over. Never waits."""
        self.branches.look()
        for spawned in self.spawner.poll():
            record = self._records[spawned.member]
            record.spawned(spawned.child, spawned.kind, self._clock.now())
            self._turns.pin(record, self._turns.nominal_slot(record))
            self.accounts.watch(record.actor, spawned.child.pid)
            self._newcomers.spawned(record.member, spawned.child.pid)
        for member in tuple(self._turns.under_way):
            record = self._records[member]
            if self._tiers.finish_if_over(record, self._place.path_of(member)):
                self._turns.under_way.discard(member)
                self.moves.arrived(record)
                self._turns.resume(record)

    def deaths(self) -> list[tuple[Member, ExitReport]]:
        """Actors that died since the last call: who, and the cause of death. Never waits."""
        self.step()
        dead = []
        for member, why in self.spawner.given_up().items():
            self._records[member].die()
            dead.append((member, ExitReport(why, own=False)))
        for record in self._records.values():
            # A dump ends the process on purpose.
            if (child := record.child) is None or record.state is State.DUMPING:
                continue
            if self.moves.is_late(record):
                child.kill()
            if child.has_ended():
                self.accounts.unwatch(record.actor)
                self._one_has_ended = True
                held = record.state is State.HANDING_OVER and Held.read(
                    self._place.site.held_path(record.member)
                )
                if held:
                    record.handed_over(whole=bool(held.data))
                    self._recover(record.actor)
                    self._turns.serve(record)  # if it is wanted here after all
                    continue
                record.die()
                self.spawner.withdraw(record.member)
                death = ExitReport.of_process(child.pid, child.died() or 0, child.log_tail())
                dead.append((record.member, death))
        if dead:
            self.step()
        return dead

    def tick(self) -> None:
        """Record what idle actors cost, and cap logs. Called a few times a second."""
        for record in self._records.values():
            self._tiers.note_memory(record)
            if record.child is not None:
                record.child.cap_log()
        self._place.cap_template_log()
        # Memory that came with clones from other nodes goes once nothing uses it.
        coming = any(record.expected is not None for record in self._records.values())
        unneeded = self._one_has_ended or self.images.may_free
        if unneeded and not coming and not self._turns.under_way:
            self._one_has_ended = False
            self.images.free_memory(self.pids().values())
        self._newcomers.tick()
        self._turns.grant()  # other runs may have been late with their slots

    def pids(self) -> dict[Member, int]:
        """Process id by member."""
        return {r.member: r.child.pid for r in self._records.values() if r.child is not None}

    def waits_for_slot(self, member: Member) -> bool:
        """Whether an actor's invocations wait for a slot or for its process."""
        record = self._records.get(member)
        return record is not None and bool(record.waiting) and not record.unanswered

    def usage(self) -> Usage:
        """What the actors have cost so far."""
        return self.accounts.usage(self._slots.held_seconds, self._slots.waited_seconds)

    def states(self) -> Mapping[Member, State]:
        """State by member."""
        return {member: record.state for member, record in self._records.items()}

    def tell_to_stop(self, *, hand_over: bool = False) -> None:
        """Have each actor end once it has finished its present invocation."""
        for member in self._records:
            self._mail.clear(member)
            held = str(self._place.site.held_path(member)) if hand_over else ""
            self._mail.passers[member].pass_message(Stop(held))

    def stop(
        self,
        seconds: float,
        undisturbed: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Let actors end by themselves for ``seconds``, then kill them and remove their images.

        A request to stop may interrupt it, but for what it does ``undisturbed``, and call it again
        with 0 seconds.
        """
        deadline, records = Deadline(seconds), self._records.values()
        self.branches.close()
        self.spawner.close()
        if seconds:
            end_images(records, self._tiers, self._place, self._cpus, deadline, undisturbed)
        for record in records:
            with undisturbed():
                self._tiers.release(record)
            if record.child is not None:
                self.accounts.unwatch(record.actor)
                record.child.end(deadline.left)
                # Only now: after a second Ctrl-C in the wait above the child must still be found.
                record.end()
        self._tiers.close()
        self._slots.close()

    def _spawn(self, member: Member) -> None:
        record = self._records[member]
        record.start(self._clock.now())
        self._mail.clear(member)
        self.spawner.request(member, self._turns.nominal_slot(record))
        if record.waiting:
            self.spawner.hurry(member)
        self.step()
