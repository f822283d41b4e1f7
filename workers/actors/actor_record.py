"""The process manager's record of one actor: its state, and the table of its moves."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from artos.members import Member
from artos.protocol.invocations import Done, Invoke
from artos.system.child import Child
from artos.transitions import after
from workers.actors.launchers.launcher import Kind
from workers.actors.tier_policy import IdleForecast
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
    DEAD = "dead"
    """Its process exited or was killed; the supervisor was told and will end the actor here."""


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
    DIE = "die"
    END = "end"


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
    (State.PARKED, Move.DUMP): State.DUMPING,
    (State.DUMPING, Move.DUMPED): State.CHECKPOINTED,
    (State.DUMPING, Move.REFUSE): State.PARKED,
    (State.CHECKPOINTED, Move.RESTORE): State.RESTORING,
    (State.RESTORING, Move.RESTORED): State.PARKED,
    (State.RESTORING, Move.LOSE): State.COLD,
    **{
        (state, Move.DIE): State.DEAD
        for state in (State.STARTING, State.RUNNING, State.PARKED, State.FROZEN)
    },
    **{(state, Move.END): State.COLD for state in State},
}


_ALIVE = (State.RUNNING, State.PARKED, State.FROZEN)
_WAITING = (State.PARKED, State.FROZEN, State.CHECKPOINTED)


@dataclass
class ActorRecord:
    """An actor's state, its process, and its pending invocations; changed by its methods only.

    Each ``Move`` has a method of the same name. The method raises ``ForbiddenMove``, and changes
    nothing, where the table has no such move.

    ``waiting`` holds invocations until the actor has a slot; ``unanswered`` counts those in its
    mailbox. ``retired``: the workload has shrunk and does not use this actor. ``fresh``: the actor
    has not run since its process was made or an image was refused. ``stale``: it must bind the
    newest weights first, because they changed while it was away. ``soon``: once its image is made
    it is to have a process again. ``pinned`` is the slot its process was moved to. ``refused``
    says why no image could be taken since it last ran, ``refusals`` how often that failed in a row,
    ``lost`` why its image could not be used. Times are seconds of the clock: ``expected`` is since
    when its image is awaited from another node (None once it came), ``asked`` when its oldest
    waiting invocation came, ``begun`` when the start, dump or restore under way began. ``waited_s``
    and ``restored_s`` are what ``Done`` will say of its present invocation.
    """

    member: Member
    state: State = State.COLD
    child: Child | None = None
    kind: Kind = "cold"
    waiting: deque[Invoke] = field(default_factory=deque)
    unanswered: int = 0
    retired: bool = False
    fresh: bool = False
    stale: bool = False
    soon: bool = False
    pinned: Slot | None = None
    image: Image | None = None
    shot: Shot | None = None
    revival: Operation | None = None
    refused: str = ""
    refusals: int = 0
    lost: str = ""
    expected: float | None = None
    asked: float = 0.0
    begun: float = 0.0
    idle_since: float = 0.0
    waited_s: float = 0.0
    restored_s: float = 0.0
    forecast: IdleForecast = field(default_factory=IdleForecast)
    _noted_state: State | None = None
    _served: float | None = None

    @property
    def actor(self) -> int:
        """The actor's number."""
        return self.member.rank

    @property
    def busy(self) -> bool:
        """Whether it has something to do."""
        return bool(self.waiting or self.unanswered)

    def _move(self, move: Move) -> None:
        self.state = after(TABLE, self.state, move)

    # -- its process ---------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """A process for the actor has been requested."""
        self._move(Move.START)
        self.retired, self.begun = False, now

    def launched(self, child: Child, kind: Kind) -> None:
        """``child`` is the actor's process; it is not set up yet."""
        self.child, self.kind = child, kind

    def started(self) -> None:
        """Its process is set up, and waits."""
        self._move(Move.STARTED)
        self.fresh = True

    def moved_to(self, slot: Slot) -> None:
        """Its process was moved to the slot's CPU, or could not be moved there."""
        self.pinned = slot

    def die(self) -> None:
        """Its process is gone."""
        self._move(Move.DIE)
        self.child = self.pinned = None

    def end(self) -> None:
        """The actor has no process and no image any more, and its invocations are void."""
        self._move(Move.END)
        self.waiting.clear()
        self.unanswered = 0
        self.child = self.pinned = self.expected = self._noted_state = None
        self.fresh = self.stale = self.soon = False
        self._served = None
        self.refused = self.lost = ""

    # -- what it has to do ---------------------------------------------------------------------

    def ask(self, call: Invoke, now: float) -> None:
        """Queue an invocation behind those the actor already has."""
        if not self.waiting:
            self.asked = now
        self.waiting.append(call)

    def next_call(self) -> Invoke:
        """Take the next invocation off the queue, to be put into the actor's mailbox."""
        call = self.waiting.popleft()
        if self.stale:
            call, self.stale = msgspec.structs.replace(call, bind=True), False
        self.unanswered += 1
        self.forecast.expect(call.idle)
        return call

    def serve(self, now: float) -> None:
        """It holds a slot for its waiting invocations: if they lack a process, they wait for it."""
        if self._served is None and self.state not in _ALIVE:
            self._served = now

    def answered(self) -> None:
        """The actor has carried out the oldest invocation in its mailbox."""
        self.unanswered -= 1

    def told(self, done: Done) -> Done:
        """Its answer, with what its process cost the invocation; each cost is told once."""
        if self.waited_s or self.restored_s:
            done = msgspec.structs.replace(done, waited=self.waited_s, restored=self.restored_s)
            self.waited_s = self.restored_s = 0.0
        return done

    def retire(self) -> None:
        """The workload does not use this actor any more."""
        self.retired = True

    def recall(self) -> None:
        """The workload will soon use this actor again."""
        self.retired, self.soon = False, self.state is State.DUMPING

    # -- at work and idle ----------------------------------------------------------------------

    def run(self, now: float) -> None:
        """The actor goes on after a pause."""
        self._move(Move.RUN)
        self.forecast.noted(now - self.idle_since)
        self.fresh, self._noted_state, self.refused = False, None, ""
        if self._served is not None:
            self.waited_s, self._served = now - self._served, None
        else:
            self.waited_s = 0.0

    def park(self, now: float) -> None:
        """The actor has carried out all its invocations."""
        self._move(Move.PARK)
        self.rest(now)

    def rest(self, now: float) -> None:
        """The actor is idle from now on."""
        self.idle_since = now

    def freeze(self) -> None:
        """Its process is stopped."""
        self._move(Move.FREEZE)

    def thaw(self) -> None:
        """Its process may go on."""
        self._move(Move.THAW)

    def entered_new_state(self) -> bool:
        """Whether the actor waits in another state than at the last call."""
        anew = self.state in _WAITING and self.state is not self._noted_state
        if anew:
            self._noted_state = self.state
        return anew

    def release_weights(self) -> None:
        """The actor holds no weights: it binds the newest before anything else."""
        self.stale = True

    # -- as an image ---------------------------------------------------------------------------

    def dump(self, shot: Shot, now: float) -> None:
        """Its image is being taken since ``now``."""
        self._move(Move.DUMP)
        self.shot, self.begun = shot, now

    def dumped(self) -> None:
        """Its image is complete, its process is gone, and its pinned weights are released."""
        assert self.shot is not None
        self._move(Move.DUMPED)
        self.image, self.shot, self.refusals = self.shot.image, None, 0
        self.child = self.pinned = None
        self.release_weights()

    def refuse(self) -> None:
        """No image could be taken. The next attempt is after the actor has run, not at once."""
        self._move(Move.REFUSE)
        self.shot, self.fresh = None, True

    def note_refusal(self, why: str) -> None:
        """A dump failed, or could not even be begun; ``why`` says for which reason."""
        self.refused = why
        self.refusals += 1

    def restore(self, revival: Operation | None, lost: str, now: float) -> None:
        """A process is being made from its image since ``now``.

        ``revival`` is None if the image cannot be used, and ``lost`` says why.
        """
        self._move(Move.RESTORE)
        self.revival, self.lost, self.begun, self.soon = revival, lost, now, False

    def restored(self, child: Child, now: float) -> None:
        """``child`` is the process made from its image."""
        self._move(Move.RESTORED)
        self.revival, self.child, self.fresh = None, child, True
        self.restored_s = now - self.begun

    def lose(self, why: str = "") -> None:
        """Its image cannot be used, or does not come: the actor has to start anew."""
        self._move(Move.LOSE)
        self.revival, self.lost = None, why

    def take_image(self) -> Image | None:
        """Hand over its image to be removed; the record has none afterwards."""
        image, self.image = self.image, None
        return image

    @property
    def operation(self) -> Operation | None:
        """The dump or restore that is under way."""
        return self.revival if self.shot is None else self.shot.operation

    def call_off(self) -> Operation | None:
        """Hand over the dump or restore that is under way, if any, to be cancelled."""
        operation, self.shot, self.revival = self.operation, None, None
        return operation

    # -- from one node to another --------------------------------------------------------------

    def expect(self, now: float) -> None:
        """Its image is on its way here."""
        self._move(Move.EXPECT)
        self.retired, self.expected = False, now

    def arrive(self, image: Image) -> None:
        """Its image has come from another node."""
        self._move(Move.ARRIVE)
        self.image = image
        self.release_weights()

    def waited(self, now: float) -> float | None:
        """Seconds since the actor was expected, returned once; None if it was not expected."""
        expected, self.expected = self.expected, None
        return None if expected is None else now - expected
