"""Turns of a run's actors on its CPU slots: which actor is served next, and where it waits then."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from artos.clock import Clock
from artos.errors import NotPinned
from artos.specs.members import Member
from triggers.passers import Mailboxes
from workers.actors.actor_record import ActorRecord, State
from workers.actors.idle_tiers import IdleTiers
from workers.actors.spawners.spawner import Place
from workers.actors.usage import Accounts
from workers.host import pinning
from workers.host.slots import Slot, SlotTable

_MOST_CALLS = 64
"""Invocations that a process has at once: a mailbox has room for as many, whatever they say."""
_log = logging.getLogger(__name__)


class Turns:
    """Gives actors slots in turn, takes the next step towards their invocations, and parks them.

    ``start`` spawns the process of an actor that has none. With ``pin`` a process is moved to the
    CPU of its slot. Dumps and restores go on in the background: their members are ``under_way``.
    """

    def __init__(
        self,
        records: Mapping[Member, ActorRecord],
        place: Place,
        mail: Mailboxes,
        cpus: Sequence[Slot],
        slots: SlotTable[Member],
        tiers: IdleTiers,
        accounts: Accounts,
        clock: Clock,
        start: Callable[[Member], None],
        *,
        pin: bool,
    ) -> None:
        self._records, self._place, self._mail = records, place, mail
        self._cpus, self._slots, self._tiers = cpus, slots, tiers
        self._accounts, self._clock, self._start, self._pin = accounts, clock, start, pin
        self.under_way: set[Member] = set()

    def __repr__(self) -> str:
        return f"<Turns {self._slots!r} under_way={len(self.under_way)}>"

    # -- slots ---------------------------------------------------------------------------------

    def request_slot(self, record: ActorRecord) -> None:
        """Queue an actor, which has invocations, for a slot; serve it if it has one."""
        self._slots.request(record.member)
        self.grant()
        self.serve(record)

    def grant(self) -> None:
        """Serve the actors that get a slot now. Never waits."""
        for member, _ in self._slots.granted():
            self.serve(self._records[member])

    def limit(self, slots: int) -> None:
        """Have at most so many actors run at once from now on; those that run go on."""
        self._slots.limit = slots
        self.grant()

    def leave_slot(self, member: Member) -> None:
        """Give back an actor's slot, or stop waiting for one."""
        self._slots.withdraw(member)
        self._slots.release(member)

    def nominal_slot(self, record: ActorRecord) -> Slot:
        """The slot on whose CPU the actor is made before it holds one; these are spread evenly."""
        return self._cpus[record.actor % len(self._cpus)]

    # -- an actor ------------------------------------------------------------------------------

    def serve(self, record: ActorRecord) -> None:
        """Take the next step towards an actor's waiting invocations, if it has a slot."""
        slot = self._slots.of(record.member)
        if slot is None or not record.waiting:
            return
        record.serve(self._clock.now())
        match record.state:
            case State.FROZEN:
                self._tiers.thaw(record)
                self._run(record, slot)
            case State.CHECKPOINTED:
                self.restore(record, slot)
            case State.PARKED:
                if not record.fresh:
                    self._accounts.started("unpark", self._clock.now() - record.asked)
                self._run(record, slot)
            case State.RUNNING:
                self._run(record, slot)
            case State.COLD:
                self._start(record.member)
            case _:  # it is served again when this state is over
                self._tiers.hurry(record)

    def restore(self, record: ActorRecord, slot: Slot | None = None) -> None:
        """Begin to make a process from an actor's image, by default on its nominal slot."""
        slot = slot or self.nominal_slot(record)
        self._tiers.restore(record, slot, self._place.log_of(record.member))
        self.under_way.add(record.member)

    def resume(self, record: ActorRecord) -> None:
        """Go on after a start, dump or restore of the actor: it runs, or rests in its tier."""
        record.rest(self._clock.now())
        if record.state is State.COLD and (record.waiting or not record.retired):
            self._start(record.member)  # its image was lost
        elif record.waiting:
            self.serve(record)
        elif record.soon and record.state is State.CHECKPOINTED:
            self.restore(record)
        elif record.state is State.PARKED and (record.retired or not record.fresh):
            self.park(record)

    def _run(self, record: ActorRecord, slot: Slot) -> None:
        if record.state is State.PARKED:
            self._tiers.run_again(record)
        if record.pinned != slot:
            self.pin(record, slot)
            record.moved_to(slot)  # even if it failed: it would fail again
        # While others wait for a slot, an actor gets one invocation at a time.
        crowded = self._slots.is_crowded
        most = 1 if crowded else _MOST_CALLS
        while record.waiting and record.unanswered < most:
            self._mail.passers[record.member].pass_message(record.next_call())

    def pin(self, record: ActorRecord, slot: Slot) -> None:
        """Move an actor's process to a slot's CPU, if that is wanted; if it fails, warn."""
        if not self._pin or record.child is None:
            return
        try:
            pinning.pin(record.child.pid, slot)
        except NotPinned as error:
            if not record.child.has_ended():
                _log.warning("%s", error)

    def end_turn(self, record: ActorRecord) -> None:
        """Have an actor that has answered everything go on, or give its slot to others and wait."""
        crowded = self._slots.is_crowded
        if record.waiting and not crowded:
            self.serve(record)
            return
        record.park(self._clock.now())
        if record.waiting or record.retired or crowded or self._tiers.gives_slots_back:
            self.leave_slot(record.member)
        if record.waiting:
            self._slots.request(record.member)
        else:
            self.park(record)
        self.grant()

    def park(self, record: ActorRecord) -> None:
        """Bring an idle actor into the tier where it waits."""
        if self._tiers.park(record):
            self.under_way.add(record.member)
