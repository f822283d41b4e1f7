"""The process manager of a node: the life of its actor processes (paper §3.3, §4.3).

An actor runs only while it holds a slot. What it is asked to do waits here until it has one; when
it has answered the slot goes back and the actor is parked: asleep, frozen, or as an image.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from artos.buffer.board import actor_member
from artos.clock import Clock, Deadline
from artos.errors import NoImage, NotPinned
from artos.protocol.invocations import Done, FromMember, Invoke, Ready
from artos.system.exit_report import Death
from triggers.passers import MessagePasser
from workers.actors.actor_record import Resident
from workers.actors.idle_tiers import ParkingLot
from workers.actors.launchers.launcher import Nursery, Place
from workers.actors.lifecycle import Move, State
from workers.actors.usage import Accounts
from workers.checkpoint.bundle import Home
from workers.checkpoint.checkpointer import Checkpointer
from workers.checkpoint.images import Image
from workers.host import pinning
from workers.host.slots import Slot, SlotTable

_log = logging.getLogger(__name__)
WORKLOAD = "workload"
"""The one workload of a run in the books of slots; a node that serves several names each."""


class Arrival(NamedTuple):
    """An actor from another node lives on here, ``seconds`` after it was expected; or ``lost``.

    That says why its image was of no use; it begins anew.
    """

    member: int
    seconds: float
    lost: str


class ProcessManager:
    """Starts a workload's actors, gives them slots in turn, parks them, notices their deaths.

    ``mailboxes`` are those of the actors. Nothing here waits, except ``stop`` and
    ``end``: what is being made, restored or checkpointed is looked at by ``step``, which must be
    called whenever a child of this process ended.
    """

    def __init__(
        self,
        place: Place,
        actors: int,
        mailboxes: Mapping[int, MessagePasser[Invoke]],
        nursery: Nursery,
        slots: Sequence[Slot],
        table: SlotTable[int],
        lot: ParkingLot,
        accounts: Accounts,
        clock: Clock,
        *,
        pin: bool = True,
    ) -> None:
        self._place, self._mailboxes = place, mailboxes
        self._nursery, self._cpus, self._slots, self._lot = nursery, slots, table, lot
        self.accounts, self._clock, self._pin = accounts, clock, pin
        self._residents = {m: Resident(m) for m in map(actor_member, range(actors))}
        self._under_way: set[int] = set()
        self._gone = False
        self._arrivals: list[Arrival] = []

    # -- what the coordinator asks for ---------------------------------------------------------

    def start(self, member: int) -> None:
        """Have a process of it made; it reports ``Ready`` when it is set up."""
        resident = self._residents[member]
        resident.retired = False
        resident.move(Move.START)
        resident.begun = self._clock.now()
        self._nursery.request(member, self._nominal(resident))
        self.step()

    def send(self, member: int, call: Invoke) -> None:
        """Have an invocation carried out as soon as the actor holds a slot."""
        resident = self._residents[member]
        if not resident.waiting:
            resident.asked = self._clock.now()
        resident.waiting.append(call)
        if not resident.queued:
            resident.queued = True
            self._slots.request(WORKLOAD, member)
        self._grant()
        self._serve(resident)

    def prepare(self, member: int) -> None:
        """The actor takes part soon: have it alive by then."""
        resident = self._residents[member]
        resident.retired = False
        if resident.state is State.COLD:
            self.start(member)
        elif resident.state is State.CHECKPOINTED:
            self._restore(resident, self._nominal(resident))

    def retire(self, member: int) -> None:
        """The actor takes no part any more: once it is done it waits without using anything."""
        resident = self._residents[member]
        resident.retired = True
        if resident.state is State.FROZEN and not resident.busy:
            self._lot.thaw(resident)  # it may become an image now
        if resident.state is State.PARKED and not resident.busy:
            self._park(resident)

    def use(self, slots: Sequence[Slot]) -> None:
        """These are the slots from now on; who runs on another one finishes there."""
        self._cpus = slots
        self._slots.have(slots)
        self._grant()

    def end(self, member: int) -> None:
        """Kill what is left of an actor, and forget what it was asked to do."""
        resident = self._residents[member]
        self._nursery.withdraw(member)
        self._lot.release(resident)
        if resident.child is not None:
            self.accounts.unwatch(resident.actor)
            resident.child.kill()
        self._leave_slot(resident)
        self._under_way.discard(member)
        resident.forget()
        self._gone = True
        self._grant()

    # -- from one node to another --------------------------------------------------------------

    @property
    def criu(self) -> str:
        """The version that makes images of actors here, "" if none can."""
        return self._lot.criu

    @property
    def images(self) -> Checkpointer:
        """Packs images of actors into parcels, and unpacks them."""
        return self._lot.checkpointer

    def shelve(self, member: int) -> Image | None:
        """The image of an actor that has nothing to do; None while it is being made: ask again.

        Raises:
            ArtosError, OSError: there is none, and why; the actor waits as before.
        """
        resident = self._residents[member]
        state = resident.state
        if state in (State.DUMPING, State.RESTORING):
            return None
        if state is State.CHECKPOINTED and not resident.busy:
            return resident.image
        idle = state in (State.PARKED, State.FROZEN) and not resident.busy
        if why := resident.refused if idle else f"it is {state}":
            raise NoImage(resident.actor, why)
        self._lot.checkpoint(resident)
        self._under_way.add(member)
        return None

    def expect(self, member: int) -> None:
        """An image of the actor is on its way here: what it is asked to do waits for that."""
        resident = self._residents[member]
        resident.retired = False
        resident.move(Move.EXPECT)
        resident.expected = self._clock.now()

    def take_in(self, member: int, image: Image) -> None:
        """That image is here: have a process made of it; see ``arrivals``."""
        resident = self._residents[member]
        self._lot.take_in(resident, image)
        self._restore(resident, self._nominal(resident))

    def miss(self, member: int) -> None:
        """There will be no such image: the actor begins anew."""
        resident = self._residents[member]
        resident.expected = None
        resident.move(Move.LOSE)
        self._settle(resident)

    def arrivals(self) -> list[Arrival]:
        """What became since the last call of actors that were expected and came."""
        arrivals, self._arrivals = self._arrivals, []
        return arrivals

    def home_of(self, member: int) -> Home:
        """Where the actor lives, as parcels know it."""
        place = self._place
        return Home(place.site_for(member), str(place.path_of(member)), place.code)

    # -- what happens --------------------------------------------------------------------------

    def heard(self, member: int, message: FromMember) -> None:
        """An actor reported to the coordinator."""
        resident = self._residents[member]
        if isinstance(message, Ready) and resident.state is State.STARTING:
            resident.move(Move.STARTED)
            resident.fresh = True
            self.accounts.started(resident.kind, self._clock.now() - resident.begun)
            self._settle(resident)
        elif isinstance(message, Done) and resident.unanswered:
            resident.unanswered -= 1
            if not resident.unanswered:
                self._answered(resident)

    def template_said(self, message: FromMember) -> None:
        """The template reported."""
        self._nursery.heard(message)
        self.step()

    def step(self) -> None:
        """See what became of everything that was begun. Never waits."""
        for birth in self._nursery.poll():
            resident = self._residents[birth.member]
            resident.child, resident.kind = birth.child, birth.kind
            self.accounts.watch(resident.actor, birth.child.pid)
        for member in tuple(self._under_way):
            resident = self._residents[member]
            if self._lot.look_at(resident, self._place.path_of(member)):
                self._under_way.discard(member)
                self._arrived(resident)
                self._settle(resident)

    def _arrived(self, resident: Resident) -> None:
        """Book what became of an actor from elsewhere, if it is one."""
        if resident.expected is not None:
            seconds, resident.expected = self._clock.now() - resident.expected, None
            self._arrivals.append(Arrival(resident.member, seconds, resident.lost))

    def reap(self) -> list[tuple[int, Death]]:
        """Actors that died since the last look, by member number, and of what."""
        dead = []
        for resident in self._residents.values():
            child = resident.child
            # A checkpoint ends its process on purpose.
            if child is None or resident.state is State.DUMPING:
                continue
            if child.has_ended():
                self.accounts.unwatch(resident.actor)
                resident.move(Move.DIE)
                resident.child = None
                self._gone = True
                death = Death.of_process(child.pid, child.died() or 0, child.log_tail())
                dead.append((resident.member, death))
        return dead

    def tick(self) -> None:
        """Keep the books of those that wait. Called a few times a second."""
        for resident in self._residents.values():
            self._lot.book(resident)
            if resident.child is not None:
                resident.child.cap_log()
        self._place.cap_template_log()
        self._free_memory()

    def _free_memory(self) -> None:
        """What came with clones from elsewhere goes with the last of them."""
        quiet = not self._under_way and all(r.expected is None for r in self._residents.values())
        if self._gone and quiet:
            self._gone = False
            self.images.free_memory(self.pids().values())

    def pids(self) -> dict[int, int]:
        """Process id by member number."""
        residents = self._residents.values()
        return {r.member: r.child.pid for r in residents if r.child is not None}

    def held_back(self, member: int) -> bool:
        """Whether what an actor was asked to do waits for a slot or for its process."""
        resident = self._residents.get(member)
        return resident is not None and bool(resident.waiting) and not resident.unanswered

    def held_seconds(self) -> float:
        """Slot-seconds held so far."""
        return self._slots.held_seconds(WORKLOAD)

    def states(self) -> Mapping[int, State]:
        """State by member number."""
        return {member: resident.state for member, resident in self._residents.items()}

    def stop(self, seconds: float) -> None:
        """Let actors end by themselves for ``seconds``, then kill them; nothing is left."""
        deadline = Deadline(seconds)
        self._nursery.close()
        for resident in self._residents.values():
            self._lot.release(resident)
            if resident.child is not None:
                self.accounts.unwatch(resident.actor)
                resident.child.end(deadline.left)
                # Only now: a second Ctrl-C in the wait above must find it here and kill it.
                resident.child = None
        self._lot.close()

    # -- slots ---------------------------------------------------------------------------------

    def _nominal(self, resident: Resident) -> Slot:
        """The slot on whose CPU it is made: spread evenly, before it holds one."""
        return self._cpus[resident.actor % len(self._cpus)]

    def _grant(self) -> None:
        for member, _ in self._slots.granted():
            self._serve(self._residents[member])

    def _serve(self, resident: Resident) -> None:
        """Bring an actor that has something to do one step nearer to doing it."""
        slot = self._slots.of(resident.member)
        if slot is None or not resident.waiting:
            return
        match resident.state:
            case State.FROZEN:
                self._lot.thaw(resident)
                self._run(resident, slot)
            case State.CHECKPOINTED:
                self._restore(resident, slot)
            case State.PARKED:
                if not resident.fresh:
                    self.accounts.started("unpark", self._clock.now() - resident.asked)
                self._run(resident, slot)
            case State.RUNNING:
                self._run(resident, slot)
            case State.COLD:
                self.start(resident.member)
            case _:
                pass  # it is served again when that is over

    def _restore(self, resident: Resident, slot: Slot) -> None:
        self._lot.restore(resident, slot, self._place.log_of(resident.member))
        self._under_way.add(resident.member)

    def _settle(self, resident: Resident) -> None:
        """What was begun with it is over: it goes on, or rests."""
        resident.idle_since = self._clock.now()
        if resident.state is State.COLD and (resident.waiting or not resident.retired):
            self.start(resident.member)  # its image was lost
        elif resident.waiting:
            self._serve(resident)
        elif resident.state is State.PARKED and (resident.retired or not resident.fresh):
            self._park(resident)

    def _run(self, resident: Resident, slot: Slot) -> None:
        if resident.state is State.PARKED:
            resident.move(Move.RUN)
            resident.fresh = False
            self._lot.leave(resident)
        self._put_on(resident, slot)
        # While others wait for a slot each gets one invocation at a time.
        crowded = self._slots.is_crowded(WORKLOAD)
        while resident.waiting and not (crowded and resident.unanswered):
            call = resident.waiting.popleft()
            if resident.stale:
                call, resident.stale = msgspec.structs.replace(call, bind=True), False
            resident.unanswered += 1
            self._mailboxes[resident.member].pass_message(call)

    def _put_on(self, resident: Resident, slot: Slot) -> None:
        if not self._pin or resident.pinned == slot or resident.child is None:
            return
        try:
            pinning.pin(resident.child.pid, slot)
        except NotPinned as error:
            if resident.child.died() is None:
                _log.warning("%s", error)
        resident.pinned = slot

    def _answered(self, resident: Resident) -> None:
        crowded = self._slots.is_crowded(WORKLOAD)
        if resident.waiting and not crowded:
            self._serve(resident)
            return
        resident.move(Move.PARK)
        resident.idle_since = self._clock.now()
        if resident.waiting or resident.retired or self._lot.gives_slots_back:
            self._leave_slot(resident)
        if resident.waiting:
            resident.queued = True
            self._slots.request(WORKLOAD, resident.member)
        else:
            self._park(resident)
        self._grant()

    def _leave_slot(self, resident: Resident) -> None:
        if resident.queued:
            resident.queued = False
            self._slots.withdraw(resident.member)
            self._slots.release(resident.member)

    def _park(self, resident: Resident) -> None:
        if self._lot.park(resident):
            self._under_way.add(resident.member)
