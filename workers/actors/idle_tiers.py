"""Moves idle actors into the tier where they wait, and out of it again (paper §3.3).

Actors are frozen by SIGSTOP and SIGCONT, not by the kernel's freezer groups. Freezer groups of
version 1 also hold SIGKILL back, so a frozen actor would outlive a supervisor that is killed.
Freezer groups of version 2 do not, but moving a process into its group takes about 10 ms, which
would hold up the process manager. A signal takes microseconds and no privileges, also across PID
namespaces. ``waitpid`` does not report a stopped child unless it is asked to (WUNTRACED), and
nothing here asks it to.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from artos.clock import Clock
from artos.errors import ArtosError
from artos.specs.elastic import Park
from artos.system.child import Child
from workers.actors.actor_record import ActorRecord, State
from workers.actors.memory import PrivateMemory
from workers.actors.tier_policy import Costs, Situation, Tier, choose, under_pressure
from workers.actors.usage import Accounts, Start
from workers.checkpoint.checkpointer import Checkpointer
from workers.host.slots import Slot

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0
_REFUSALS = 3
_MEMORY: frozenset[Tier] = frozenset({"memory"})


def freeze(pid: int) -> None:
    """Stop a process and all its descendants. Returns at once, a moment before they stop.

    A child that the kernel is just about to make escapes; freezing again catches it. Processes
    that are gone are skipped.
    """
    for each in family(pid):  # lazy: a process is stopped before its children are listed
        _send(each, signal.SIGSTOP)


def thaw(pid: int) -> None:
    """Let a process and all its descendants go on. No error if they are not frozen, or gone."""
    for each in reversed([*family(pid)]):
        _send(each, signal.SIGCONT)


def family(pid: int) -> Iterator[int]:
    """The process and its descendants, parents first."""
    yield pid
    # From the kernel's own lists: psutil would read the parent of every process of the machine.
    try:
        tasks = [*Path(f"/proc/{pid}/task").iterdir()]
    except FileNotFoundError:
        return
    for task in tasks:
        with suppress(OSError):
            for child in (task / "children").read_text().split():
                yield from family(int(child))


def _send(pid: int, number: signal.Signals) -> None:
    # Gone, or another user's (a program that changed its user): the rest must still get it.
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


class IdleTiers:
    """Puts actors into the tier that fits and brings them back; records the time that both took.

    Dumps and restores run in the background; ``finish_if_over`` ends them. An actor whose dump
    fails waits in memory, after the third failure in a row for good: a killed CRIU or a full disk
    may be temporary, an open socket is not. An actor whose image is lost starts again.
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
        self._memory = PrivateMemory(clock)
        self._pressure, self._looked = False, -_LOOK_SECONDS

    @property
    def gives_slots_back(self) -> bool:
        """Whether actors give their slot back between rounds."""
        return self._park != "never"

    # -- in ------------------------------------------------------------------------------------

    def park(self, record: ActorRecord) -> bool:
        """Bring a parked actor into its tier; returns whether a dump goes on in the background."""
        if record.branches:
            return False
        if record.retired:
            self._unpin(record.actor)
            record.release_weights()
        now = self._clock.now()
        if now - self._looked >= _LOOK_SECONDS:  # not at every decision: it takes too long to read
            self._pressure, self._looked = under_pressure(), now
        situation = Situation(
            available=_MEMORY if record.refusals >= _REFUSALS else self._tiers,
            idle=record.forecast.seconds,
            for_good=record.retired,
            pressure=self._pressure,
            gives_back=self.checkpointer.gives_back,
            burns_cpu=self._accounts.burns(record.actor),
        )
        tier = choose(self._park, situation, self._costs)
        if tier == "freeze":
            assert record.child is not None
            began = self._clock.now()
            freeze(record.child.pid)
            record.freeze(now := self._clock.now())
            self._costs.into("freeze", now - began)
        if tier != "checkpoint":
            return False
        try:
            self.checkpoint(record)
            if record.shot is not None and not record.waiting:
                record.shot.operation.lower_priority()  # a learner may be at work by now
        except (ArtosError, OSError) as error:
            self._refuse(record, error)
            return False
        return True

    def checkpoint(self, record: ActorRecord) -> None:
        """Begin to make an image of an idle actor; ``finish_if_over`` ends that.

        Raises:
            ArtosError, OSError: the dump cannot be begun; the actor waits as before.
        """
        assert record.child is not None
        if record.state is State.FROZEN:
            self.thaw(record)
        began = self._clock.now()
        shot = self.checkpointer.take(record.child.pid, f"actor-{record.actor}", record.actor)
        record.dump(shot, began)

    def _refuse(self, record: ActorRecord, error: Exception) -> None:
        record.note_refusal(str(error))
        if record.refusals in (1, _REFUSALS):
            how_long = "for now" if record.refusals == 1 else "from now on"
            _log.warning("actor %d waits in memory %s: %s", record.actor, how_long, error)

    # -- out -----------------------------------------------------------------------------------

    def note_memory(self, record: ActorRecord) -> None:
        """Note the memory an idle actor keeps; pauses that fall between two calls go unnoted."""
        if not record.entered_new_state():
            return
        mb = 0.0
        if record.image is not None:
            with suppress(OSError):  # its image was removed; the restore will report that
                mb = sum(record.image.files().values()) / 1e6
        elif record.child is not None:
            mb = self._memory.mb(record.actor, record.child.pid)
        self._accounts.parked(record.actor, mb, runs=record.state is State.PARKED)

    def run_again(self, record: ActorRecord) -> None:
        """Account for a parked actor that runs again."""
        record.run(self._clock.now())
        self._accounts.waited(record.waited_s)
        self._accounts.unparked(record.actor)

    def thaw(self, record: ActorRecord) -> None:
        """Let a frozen actor go on."""
        assert record.child is not None
        began = self._clock.now()
        thaw(record.child.pid)
        record.thaw(now := self._clock.now())
        seconds = now - began
        self._costs.out_of("freeze", seconds)
        self._accounts.started("thaw", seconds)

    def restore(self, record: ActorRecord, slot: Slot, log: Path) -> None:
        """Begin to make a process from an actor's image; ``finish_if_over`` ends that."""
        assert record.image is not None
        began, revival, lost = self._clock.now(), None, ""
        try:
            gently = not record.waiting
            revival = self.checkpointer.revive(record.image, log, slot, gently=gently)
        except (ArtosError, OSError) as error:
            lost = str(error)
        record.restore(revival, lost, began)

    def hurry(self, record: ActorRecord) -> None:
        """Speed up the dump or restore of an actor, if any: an invocation waits for the actor."""
        if (operation := record.operation) is not None:
            operation.hurry()

    # -- from one node to another --------------------------------------------------------------

    @property
    def criu(self) -> str:
        """The version of CRIU that makes images here, "" if images cannot be made."""
        return self.checkpointer.criu if "checkpoint" in self._tiers else ""

    # -- in the background --------------------------------------------------------------------

    def finish_if_over(self, record: ActorRecord, log: Path) -> bool:
        """Finish the actor's dump or restore if it is over; returns whether it is. Never waits.

        Afterwards the actor is checkpointed, or parked, or cold if its image could not be used.
        """
        if record.state is State.DUMPING:
            return self._dump_is_over(record)
        if record.state is State.RESTORING:
            return self._restore_is_over(record, log)
        return True

    def _dump_is_over(self, record: ActorRecord) -> bool:
        assert record.shot is not None
        assert record.child is not None
        try:
            if not self.checkpointer.is_done(record.shot):
                return False
        except (ArtosError, OSError) as error:
            record.refuse()
            self._refuse(record, error)
            return True
        self._costs.into("checkpoint", self._clock.now() - record.begun)
        self._accounts.unwatch(record.actor)
        record.child.kill()  # it ended with the dump; this reaps it
        self._unpin(record.actor)
        record.dumped()
        return True

    def _restore_is_over(self, record: ActorRecord, log: Path) -> bool:
        if record.revival is None:
            self._lose(record, record.lost)
            return True
        try:
            outcome = record.revival.poll()
        except (ArtosError, OSError) as error:
            self._lose(record, str(error))
            return True
        if outcome is None:
            return False
        now = self._clock.now()
        record.restored(Child(outcome.pid, log), now)
        self._accounts.watch(record.actor, outcome.pid)
        self._costs.out_of("checkpoint", now - record.begun)
        if record.expected is not None:
            self._accounts.started("moved", now - record.expected)
        else:
            kind: Start = "restore" if record.waiting else "prewarm"
            self._accounts.started(kind, now - record.begun)
        self._forget_image(record)
        return True

    def _lose(self, record: ActorRecord, why: str) -> None:
        """Drop an image that cannot be used: the actor starts again and loses its episode."""
        _log.warning("actor %d is started again: %s", record.actor, why)
        record.lose(why)
        self._forget_image(record)

    def _forget_image(self, record: ActorRecord) -> None:
        if (image := record.take_image()) is not None:
            self.checkpointer.drop(image)

    # -- the end -------------------------------------------------------------------------------

    def bring_back(self, record: ActorRecord, log: Path, seconds: float) -> bool:
        """Wait for a restore that was begun only to end the actor; returns whether it succeeded."""
        if record.revival is None:
            return False
        try:
            outcome = record.revival.wait(seconds)
        except (ArtosError, OSError):
            return False
        record.restored(Child(outcome.pid, log), self._clock.now())
        self._accounts.watch(record.actor, outcome.pid)
        return True

    def release(self, record: ActorRecord) -> None:
        """Cancel a dump or restore of an actor, thaw it if it is frozen, and drop its image."""
        if (operation := record.call_off()) is not None:
            operation.cancel()
        if record.state is State.FROZEN and record.child is not None:
            thaw(record.child.pid)
        self._accounts.unparked(record.actor)
        self._forget_image(record)

    def close(self) -> None:
        """Remove every image."""
        self.checkpointer.close()
