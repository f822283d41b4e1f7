"""The process manager's record of one actor: its state, and the table of its moves."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from artos.specs.members import Member
from artos.system.child import Child
from artos.system.transitions import after
from workers.actors.image_work import ImageWork
from workers.actors.pending_calls import PendingCalls
from workers.actors.rests import Rests
from workers.actors.spawners.spawner import Kind
from workers.actors.usage import Start
from workers.checkpoint.checkpointer import Shot
from workers.checkpoint.criu.driver import Operation
from workers.checkpoint.images import Image
from workers.host.slots import Slot


class State(StrEnum):
    """The state of an actor. Only ``RUNNING`` entitles it to a CPU slot."""

    COLD = "cold"
    """No process and no image."""
    ARRIVING = "arriving"
    """Its image is on its way here from another node."""
    STARTING = "starting"
    """Its process is being made: from scratch, by fork, or as a clone."""
    RUNNING = "running"
    """Holds a slot and carries out invocations."""
    PARKED = "parked"
    """Alive and asleep; it has given its slot back."""
    FROZEN = "frozen"
    """Alive and stopped by a signal: it gets no CPU."""
    DUMPING = "dumping"
    """Its image is being taken."""
    CHECKPOINTED = "checkpointed"
    """It has an image and no process: its memory is given back."""
    RESTORING = "restoring"
    """A process is being made from its image."""
    HANDING_OVER = "handing-over"
    """Its process writes down what it holds and ends; the next one goes on from there."""
    DEAD = "dead"
    """Its process exited or was killed; the supervisor knows, and will end the actor here."""


class Move(StrEnum):
    """A change of an actor's state."""

    EXPECT = "expect"
    ARRIVE = "arrive"
    START = "start"
    STARTED = "started"
    RUN = "run"
    PARK = "park"
    FREEZE = "freeze"
    THAW = "thaw"
    DUMP = "dump"
    DUMPED = "dumped"
    REFUSE = "refuse"
    RESTORE = "restore"
    RESTORED = "restored"
    LOSE = "lose"
    HAND_OVER = "hand_over"
    HANDED_OVER = "handed_over"
    DIE = "die"
    END = "end"


_ALIVE = (State.RUNNING, State.PARKED, State.FROZEN)

TABLE: dict[tuple[State, Move], State] = {
    (State.COLD, Move.START): State.STARTING,
    (State.COLD, Move.EXPECT): State.ARRIVING,
    (State.ARRIVING, Move.ARRIVE): State.CHECKPOINTED,
    (State.ARRIVING, Move.LOSE): State.COLD,
    (State.STARTING, Move.STARTED): State.PARKED,
    (State.PARKED, Move.RUN): State.RUNNING,
    (State.RUNNING, Move.PARK): State.PARKED,
    (State.PARKED, Move.FREEZE): State.FROZEN,
    (State.FROZEN, Move.THAW): State.PARKED,
    (State.PARKED, Move.HAND_OVER): State.HANDING_OVER,
    (State.HANDING_OVER, Move.HANDED_OVER): State.COLD,
    (State.PARKED, Move.DUMP): State.DUMPING,
    (State.DUMPING, Move.DUMPED): State.CHECKPOINTED,
    (State.DUMPING, Move.REFUSE): State.PARKED,
    (State.CHECKPOINTED, Move.RESTORE): State.RESTORING,
    (State.RESTORING, Move.RESTORED): State.PARKED,
    (State.RESTORING, Move.LOSE): State.COLD,
    **{(state, Move.DIE): State.DEAD for state in (*_ALIVE, State.STARTING, State.HANDING_OVER)},
    **{(state, Move.END): State.COLD for state in State},
}


_WAITING = (State.PARKED, State.FROZEN, State.CHECKPOINTED)


@dataclass
class ActorRecord(PendingCalls, ImageWork):
    """An actor's state and its process, besides its invocations and its image.

    Each ``Move`` has a method of the same name. It raises ``ForbiddenMove``, and changes nothing,
    if the table has no such move. Times are seconds of the clock.
    """

    member: Member
    state: State = State.COLD
    child: Child | None = None
    kind: Start = "cold"
    """How its process was made."""
    fresh: bool = False
    """Whether it has not run since its process was made or an image was refused."""
    soon: bool = False
    """Whether it is to have a process again once its image is made."""
    pinned: Slot | None = None
    """The slot to whose CPU its process was moved."""
    came: bool = False
    """Whether its process is to go on from what it held on another node."""
    stayed: bool = False
    """Whether its process is to go on from what it held here, as if nothing had been."""
    begun: float = 0.0
    """When the start, dump or restore under way began."""
    _noted_state: State | None = None
    _served: float | None = None
    """Since when it has held a slot without a process."""

    @property
    def actor(self) -> int:
        """The actor's number."""
        return self.member.rank

    def _move(self, move: Move) -> None:
        self.state = after(TABLE, self.state, move)

    # -- its process ---------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Record that a process for the actor is requested."""
        self._move(Move.START)
        self.retired, self.begun = False, now

    def spawned(self, child: Child, kind: Kind, now: float) -> None:
        """Record the actor's process, which is not set up yet."""
        if self.stayed:  # what only its node waits for begins now
            self.begun = now
        self.child, self.kind, self.came = child, "state" if self.came else kind, False

    def started(self) -> None:
        """Record that its process is set up, and waits."""
        self._move(Move.STARTED)
        self.fresh, self.stayed = True, False

    def moved_to(self, slot: Slot) -> None:
        """Record that its process was moved to the slot's CPU, or could not be moved there."""
        self.pinned = slot

    def die(self) -> None:
        """Record that its process is gone."""
        self._move(Move.DIE)
        self.child = self.pinned = None

    def end(self) -> None:
        """Record that it has no process and no image any more; its invocations are void."""
        self._move(Move.END)
        self.waiting.clear()
        self.unanswered = 0
        self.child = self.pinned = self.expected = self._noted_state = None
        self.rests = Rests()
        self.fresh = self.stale = self.soon = self.came = self.stayed = False
        self._served = None
        self.refused = self.lost = ""

    def hand_over(self, now: float) -> None:
        """Record that its process was told to write down what it holds, and to end."""
        self._move(Move.HAND_OVER)
        self.begun = now

    def handed_over(self, *, whole: bool) -> None:
        """Record that its process has ended with that; the next one goes on if it is ``whole``."""
        self._move(Move.HANDED_OVER)
        self.child = self.pinned = None
        self.came = self.stayed = whole

    # -- what it has to do ---------------------------------------------------------------------

    def serve(self, now: float) -> None:
        """Record that it holds a slot; if it has no process, its invocations wait for that now."""
        if self._served is None and self.state is not State.RUNNING:
            self.has_slot(now)
        if self._served is None and self.state not in _ALIVE:
            self._served = now

    def recall(self) -> None:
        """Record that the workload will soon use this actor again."""
        self.retired, self.soon = False, self.state is State.DUMPING

    # -- at work and idle ----------------------------------------------------------------------

    def run(self, now: float) -> None:
        """Record that the actor goes on after a pause."""
        self._move(Move.RUN)
        self.forecast.noted(now - self.idle_since)
        self.fresh, self._noted_state, self.refused = False, None, ""
        self.rested = self.rests.told(now)
        if self._served is not None:
            self.waited_s, self._served = now - self._served, None
        else:
            self.waited_s = 0.0

    def park(self, now: float) -> None:
        """Record that the actor has carried out all its invocations."""
        self._move(Move.PARK)
        self.rest(now)

    def freeze(self, now: float) -> None:
        """Record that its process is stopped."""
        self._move(Move.FREEZE)
        self.rests.begin(State.FROZEN.value, now)

    def thaw(self, now: float) -> None:
        """Record that its process may go on."""
        self._move(Move.THAW)
        self.rests.end(now)

    def entered_new_state(self) -> bool:
        """Whether the actor waits in another state than at the last call."""
        is_new = self.state in _WAITING and self.state is not self._noted_state
        if is_new:
            self._noted_state = self.state
        return is_new

    # -- as an image ---------------------------------------------------------------------------

    def dump(self, shot: Shot, now: float) -> None:
        """Record that its image is being taken since ``now``."""
        self._move(Move.DUMP)
        self.shot, self.begun = shot, now
        self.rests.begin(State.CHECKPOINTED.value, now)

    def dumped(self) -> None:
        """Record that its image is complete; its process and its pin of the weights are gone."""
        assert self.shot is not None
        self._move(Move.DUMPED)
        self.image, self.shot, self.refusals = self.shot.image, None, 0
        self.child = self.pinned = None
        self.release_weights()

    def refuse(self) -> None:
        """Record that no image could be taken; the next attempt is after the actor has run."""
        self._move(Move.REFUSE)
        self.shot, self.fresh = None, True
        self.rests.take_back()

    def restore(self, revival: Operation | None, lost: str, now: float) -> None:
        """Record that a process is being made from its image since ``now``.

        ``revival`` is None if the image cannot be used, and ``lost`` says why.
        """
        self._move(Move.RESTORE)
        self.revival, self.lost, self.begun, self.soon = revival, lost, now, False
        self.rests.begin(State.RESTORING.value, now)

    def restored(self, child: Child, now: float) -> None:
        """Record the process that was made from its image."""
        self._move(Move.RESTORED)
        self.revival, self.child, self.fresh = None, child, True
        self.restored_s = now - self.begun
        self.rests.end(now)

    def lose(self, why: str = "", *, came: bool = False) -> None:
        """Record that its image cannot be used, or does not come: the actor has to start again.

        Where what it held ``came`` instead, from that.
        """
        self._move(Move.LOSE)
        self.revival, self.lost, self.came = None, why, came
        self.rests.take_back()

    # -- from one node to another --------------------------------------------------------------

    def expect(self, now: float) -> None:
        """Record that its image is on its way here."""
        self._move(Move.EXPECT)
        self.retired, self.expected = False, now

    def arrive(self, image: Image) -> None:
        """Record that its image has come from another node."""
        self._move(Move.ARRIVE)
        self.image = image
        self.release_weights()
