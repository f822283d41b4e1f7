"""Where actors wait that have nothing to do, and how they get in and out (paper §3.3)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from artos.clock import Clock
from artos.errors import ArtosError
from artos.scaling.elastic import Park
from artos.system.child import Child
from workers.actors.actor_record import Resident
from workers.actors.lifecycle import Move, State
from workers.actors.tier_policy import Costs, Situation, Tier, choose, under_pressure
from workers.actors.usage import Accounts, private_mb
from workers.checkpoint import freezer
from workers.checkpoint.checkpointer import Checkpointer
from workers.checkpoint.images import Image
from workers.host.slots import Slot

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0
_REFUSALS = 3
_MEMORY: frozenset[Tier] = frozenset({"memory"})
_WAITING = (State.PARKED, State.FROZEN, State.CHECKPOINTED)


class ParkingLot:
    """Puts actors into the tier that fits and brings them back; books what both took.

    Dumps and restores go on by themselves: ``look_at`` finishes them. An actor whose checkpoint
    fails waits in memory, from the third failure in a row on for good (a CRIU that was killed or a
    full disk may be mended, an open socket stays); one whose image is lost begins anew.
    """

    def __init__(
        self,
        park: Park,
        tiers: frozenset[Tier],
        checkpointer: Checkpointer,
        accounts: Accounts,
        unpin: Callable[[int], None],
        clock: Clock,
    ) -> None:
        self._park, self._tiers, self.checkpointer = park, tiers, checkpointer
        self._accounts, self._clock = accounts, clock
        self._unpin = unpin
        self._costs = Costs()
        self._refusals: dict[int, int] = {}
        self._pressure, self._looked = False, -_LOOK_SECONDS

    @property
    def gives_slots_back(self) -> bool:
        """Whether actors give their slot back between rounds."""
        return self._park != "never"

    # -- in ------------------------------------------------------------------------------------

    def park(self, resident: Resident) -> bool:
        """Bring a parked actor into its tier; whether that goes on by itself now."""
        if resident.retired:
            self._let_weights_go(resident)
        tier = choose(self._park, self._situation(resident), self._costs)
        if tier == "freeze":
            self._freeze(resident)
        return tier == "checkpoint" and self._checkpoint(resident)

    def _situation(self, resident: Resident) -> Situation:
        now = self._clock.now()
        if now - self._looked >= _LOOK_SECONDS:  # reading it takes longer than a decision may
            self._pressure, self._looked = under_pressure(), now
        return Situation(
            available=_MEMORY if self._is_barred(resident) else self._tiers,
            idle=resident.forecast.seconds,
            for_good=resident.retired,
            pressure=self._pressure,
            gives_back=self.checkpointer.gives_back,
            burns_cpu=self._accounts.burns(resident.actor),
        )

    def _freeze(self, resident: Resident) -> None:
        assert resident.child is not None
        began = self._clock.now()
        freezer.freeze(resident.child.pid)
        resident.move(Move.FREEZE)
        self._costs.into("freeze", self._clock.now() - began)

    def _checkpoint(self, resident: Resident) -> bool:
        try:
            self.checkpoint(resident)
        except (ArtosError, OSError) as error:
            self._refuse(resident, error)
            return False
        return True

    def checkpoint(self, resident: Resident) -> None:
        """Begin to make an image of an actor that waits; see ``look_at``.

        Raises:
            ArtosError, OSError: it cannot be begun; the actor waits as before.
        """
        assert resident.child is not None
        if resident.state is State.FROZEN:
            self.thaw(resident)
        name, resident.begun = f"actor-{resident.actor}", self._clock.now()
        resident.shot = self.checkpointer.take(resident.child.pid, name, resident.actor)
        resident.move(Move.DUMP)

    def _refuse(self, resident: Resident, error: Exception) -> None:
        actor, resident.refused = resident.actor, str(error)
        count = self._refusals[actor] = self._refusals.get(actor, 0) + 1
        if count in (1, _REFUSALS):
            how_long = "for now" if count == 1 else "from now on"
            _log.warning("actor %d waits in memory %s: %s", actor, how_long, error)

    def _is_barred(self, resident: Resident) -> bool:
        return self._refusals.get(resident.actor, 0) >= _REFUSALS

    # -- out -----------------------------------------------------------------------------------

    def book(self, resident: Resident) -> None:
        """Note what an actor that waits keeps; short pauses between two calls go unnoted."""
        if resident.booked is resident.state or resident.state not in _WAITING:
            return
        resident.booked = resident.state
        if resident.image is not None:
            mb = _size_mb(resident.image)
        else:
            mb = private_mb(resident.child.pid) if resident.child is not None else 0.0
        self._accounts.parked(resident.actor, mb, runs=resident.state is State.PARKED)

    def leave(self, resident: Resident) -> None:
        """A parked actor runs again."""
        resident.forecast.noted(self._clock.now() - resident.idle_since)
        self._accounts.unparked(resident.actor)
        resident.booked, resident.refused = None, ""

    def thaw(self, resident: Resident) -> None:
        """Let a frozen actor go on."""
        assert resident.child is not None
        began = self._clock.now()
        freezer.thaw(resident.child.pid)
        resident.move(Move.THAW)
        seconds = self._clock.now() - began
        self._costs.out_of("freeze", seconds)
        self._accounts.started("thaw", seconds)

    def restore(self, resident: Resident, slot: Slot, log: Path) -> None:
        """Begin to make a process of a checkpointed actor's image; see ``look_at``."""
        assert resident.image is not None
        resident.move(Move.RESTORE)
        resident.begun, resident.lost = self._clock.now(), ""
        try:
            resident.revival = self.checkpointer.revive(resident.image, log, slot)
        except (ArtosError, OSError) as error:
            resident.lost = str(error)

    # -- from one node to another --------------------------------------------------------------

    @property
    def criu(self) -> str:
        """The version that makes images here, "" if none can."""
        return self.checkpointer.criu if "checkpoint" in self._tiers else ""

    def take_in(self, resident: Resident, image: Image) -> None:
        """The image of an actor that was expected is here; it can be restored."""
        resident.image, resident.stale = image, True
        resident.move(Move.ARRIVE)

    # -- what goes on by itself ----------------------------------------------------------------

    def look_at(self, resident: Resident, log: Path) -> bool:
        """Finish a dump or a restore that is over; whether it was. Never waits.

        Afterwards the actor is checkpointed, or parked, or cold if its image was of no use.
        """
        if resident.state is State.DUMPING:
            return self._look_at_dump(resident)
        if resident.state is State.RESTORING:
            return self._look_at_restore(resident, log)
        return True

    def _look_at_dump(self, resident: Resident) -> bool:
        assert resident.shot is not None
        try:
            if not self.checkpointer.is_done(resident.shot):
                return False
        except (ArtosError, OSError) as error:
            resident.shot = None
            resident.move(Move.REFUSE)
            resident.fresh = True  # it is tried again when it has run, not at once
            self._refuse(resident, error)
            return True
        self._costs.into("checkpoint", self._clock.now() - resident.begun)
        self._refusals.pop(resident.actor, None)
        self._take_off(resident)
        resident.image, resident.shot = resident.shot.image, None
        resident.move(Move.DUMPED)
        return True

    def _take_off(self, resident: Resident) -> None:
        """Its process ended with the dump: reap it, and let the weights it held go."""
        assert resident.child is not None
        self._accounts.unwatch(resident.actor)
        resident.child.kill()
        resident.child = resident.pinned = None
        self._let_weights_go(resident)

    def _let_weights_go(self, resident: Resident) -> None:
        self._unpin(resident.actor)
        resident.stale = True

    def _look_at_restore(self, resident: Resident, log: Path) -> bool:
        if resident.revival is None:
            self._lose(resident)
            return True
        try:
            outcome = resident.revival.poll()
        except (ArtosError, OSError) as error:
            resident.lost = str(error)
            self._lose(resident)
            return True
        if outcome is None:
            return False
        resident.revival = None
        resident.child = Child(outcome.pid, log)
        self._accounts.watch(resident.actor, outcome.pid)
        resident.move(Move.RESTORED)
        resident.fresh = True
        now = self._clock.now()
        self._costs.out_of("checkpoint", now - resident.begun)
        if resident.expected is None:
            self._accounts.started("restore", now - resident.begun)
        else:
            self._accounts.started("moved", now - resident.expected)
        self._forget_image(resident)
        return True

    def _lose(self, resident: Resident) -> None:
        """Its image is of no use: it begins a new life, its episode is lost."""
        _log.warning("actor %d is started anew: %s", resident.actor, resident.lost)
        resident.revival = None
        resident.move(Move.LOSE)
        self._forget_image(resident)

    def _forget_image(self, resident: Resident) -> None:
        if resident.image is not None:
            self.checkpointer.drop(resident.image)
            resident.image = None

    # -- the end -------------------------------------------------------------------------------

    def release(self, resident: Resident) -> None:
        """Stop whatever goes on with an actor, and let it go on by itself if it was frozen."""
        if resident.shot is not None:
            resident.shot.operation.cancel()
            resident.shot = None
        if resident.revival is not None:
            resident.revival.cancel()
            resident.revival = None
        if resident.state is State.FROZEN and resident.child is not None:
            freezer.thaw(resident.child.pid)
        self._accounts.unparked(resident.actor)
        self._forget_image(resident)

    def close(self) -> None:
        """Remove every image."""
        self.checkpointer.close()


def _size_mb(image: Image) -> float:
    try:
        return sum(image.files().values()) / 1e6
    except OSError:
        return 0.0  # somebody removed it, as will be seen when it is restored
