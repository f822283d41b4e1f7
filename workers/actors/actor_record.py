"""One registered actor as its process manager sees it, and its life as a table of moves."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from artos.buffer.mailbox import actor_of
from artos.protocol.invocations import Invoke
from artos.system.child import Child
from artos.transitions import after
from workers.actors.launchers.launcher import Kind
from workers.actors.tier_policy import IdleForecast
from workers.checkpoint.checkpointer import Shot
from workers.checkpoint.criu.driver import Operation
from workers.checkpoint.images import Image
from workers.host.slots import Slot


class State(StrEnum):
    """Where an actor is in its life. Only ``RUNNING`` holds a CPU slot by right."""

    COLD = "cold"
    """No process and no image."""
    ARRIVING = "arriving"
    """Its image is on its way here from another node."""
    STARTING = "starting"
    """A process of it is being made: from scratch, by fork, or as a clone."""
    RUNNING = "running"
    """Holds a slot and carries out invocations."""
    PARKED = "parked"
    """Alive and asleep, its slot given back."""
    FROZEN = "frozen"
    """Alive and stopped: it gets no CPU whatever it would do."""
    DUMPING = "dumping"
    """Its image is being taken."""
    CHECKPOINTED = "checkpointed"
    """An image and no process: its memory is given back."""
    RESTORING = "restoring"
    """A process is being made from its image."""
    DEAD = "dead"
    """Its process exited or was killed; its supervisor knows, and has yet to end it here."""


class Move(StrEnum):
    """What can happen to an actor."""

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


_WAITING = (State.PARKED, State.FROZEN, State.CHECKPOINTED)


@dataclass
class ActorRecord:
    """State, process, and what the actor has still to do; changed by its methods only.

    There is a method for each move of ``lifecycle``, of the same name. It raises ``ForbiddenMove``,
    and changes nothing, where the table has no such move.

    ``waiting`` are invocations kept back until it holds a slot; ``unanswered`` counts those in its
    mailbox. ``retired`` actors are beyond the number that takes part; ``fresh`` ones have not run
    since they came up. ``stale`` ones must bind the newest weights before anything else: they were
    away while those changed. ``pinned`` is where its process was moved to. ``refused`` says why no
    image could be taken since it last ran, ``refusals`` how often in a row; ``lost`` why its image
    was of no use. ``expected`` is since when it is to come here from another node, None once it
    has. Times are seconds of the clock: when what it waits for was ``asked``, when what goes on was
    ``begun``, since when it is idle.
    """

    member: int
    state: State = State.COLD
    child: Child | None = None
    kind: Kind = "cold"
    waiting: deque[Invoke] = field(default_factory=deque)
    unanswered: int = 0
    retired: bool = False
    fresh: bool = False
    stale: bool = False
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
    forecast: IdleForecast = field(default_factory=IdleForecast)
    _booked: State | None = None

    @property
    def actor(self) -> int:
        """The actor's number."""
        return actor_of(self.member)

    @property
    def busy(self) -> bool:
        """Whether it has something to do."""
        return bool(self.waiting or self.unanswered)

    def _move(self, move: Move) -> None:
        self.state = after(TABLE, self.state, move)

    # -- its process ---------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """A process of it is asked for."""
        self._move(Move.START)
        self.retired, self.begun = False, now

    def launched(self, child: Child, kind: Kind) -> None:
        """This is the process; it is not set up yet."""
        self.child, self.kind = child, kind

    def started(self) -> None:
        """It is set up, and waits."""
        self._move(Move.STARTED)
        self.fresh = True

    def moved_to(self, slot: Slot) -> None:
        """Its process is on the slot's CPU, or would not go there."""
        self.pinned = slot

    def die(self) -> None:
        """Its process is gone."""
        self._move(Move.DIE)
        self.child = self.pinned = None

    def end(self) -> None:
        """It has no process and no image any more, and what was asked of it is void."""
        self._move(Move.END)
        self.waiting.clear()
        self.unanswered = 0
        self.child = self.pinned = self.expected = self._booked = None
        self.fresh = self.stale = False
        self.refused = self.lost = ""

    # -- what it has to do ---------------------------------------------------------------------

    def ask(self, call: Invoke, now: float) -> None:
        """It is to carry this out after what it has to do already."""
        if not self.waiting:
            self.asked = now
        self.waiting.append(call)

    def next_call(self) -> Invoke:
        """What goes into its mailbox now."""
        call = self.waiting.popleft()
        if self.stale:
            call, self.stale = msgspec.structs.replace(call, bind=True), False
        self.unanswered += 1
        return call

    def answered(self) -> None:
        """It has carried out the oldest call in its mailbox."""
        self.unanswered -= 1

    def retire(self) -> None:
        """It takes no part any more."""
        self.retired = True

    def recall(self) -> None:
        """It takes part again, soon."""
        self.retired = False

    # -- at work and idle ----------------------------------------------------------------------

    def run(self, now: float) -> None:
        """It goes on after a pause."""
        self._move(Move.RUN)
        self.forecast.noted(now - self.idle_since)
        self.fresh, self._booked, self.refused = False, None, ""

    def park(self, now: float) -> None:
        """It has done all it was given."""
        self._move(Move.PARK)
        self.rest(now)

    def rest(self, now: float) -> None:
        """It is idle from now on."""
        self.idle_since = now

    def freeze(self) -> None:
        """It is stopped."""
        self._move(Move.FREEZE)

    def thaw(self) -> None:
        """It may go on."""
        self._move(Move.THAW)

    def rests_anew(self) -> bool:
        """Whether it waits in another state than when this was asked last."""
        anew = self.state in _WAITING and self.state is not self._booked
        if anew:
            self._booked = self.state
        return anew

    def release_weights(self) -> None:
        """It holds none: the newest are bound first."""
        self.stale = True

    # -- as an image ---------------------------------------------------------------------------

    def dump(self, shot: Shot, now: float) -> None:
        """Its image is being taken since ``now``."""
        self._move(Move.DUMP)
        self.shot, self.begun = shot, now

    def dumped(self) -> None:
        """Its image is there and its process gone, with the weights that held."""
        assert self.shot is not None
        self._move(Move.DUMPED)
        self.image, self.shot, self.refusals = self.shot.image, None, 0
        self.child = self.pinned = None
        self.release_weights()

    def refuse(self) -> None:
        """No image could be taken. It is tried again when it has run, not at once."""
        self._move(Move.REFUSE)
        self.shot, self.fresh = None, True

    def note_refusal(self, why: str) -> None:
        """An image could not be taken, or not even begun."""
        self.refused = why
        self.refusals += 1

    def restore(self, revival: Operation | None, lost: str, now: float) -> None:
        """A process is being made of its image since ``now``; None if that is ``lost``, and why."""
        self._move(Move.RESTORE)
        self.revival, self.lost, self.begun = revival, lost, now

    def restored(self, child: Child) -> None:
        """This is the process."""
        self._move(Move.RESTORED)
        self.revival, self.child, self.fresh = None, child, True

    def lose(self, why: str = "") -> None:
        """Its image is of no use, or does not come: it has to begin anew."""
        self._move(Move.LOSE)
        self.revival, self.lost = None, why

    def take_image(self) -> Image | None:
        """Hand over its image to be removed; the record has none afterwards."""
        image, self.image = self.image, None
        return image

    def call_off(self) -> Operation | None:
        """Hand over the dump or restore that is under way, if any, to be cancelled."""
        shot, revival, self.shot, self.revival = self.shot, self.revival, None, None
        return revival if shot is None else shot.operation

    # -- from one node to another --------------------------------------------------------------

    def expect(self, now: float) -> None:
        """Its image is on its way here."""
        self._move(Move.EXPECT)
        self.retired, self.expected = False, now

    def arrive(self, image: Image) -> None:
        """This is the image."""
        self._move(Move.ARRIVE)
        self.image = image
        self.release_weights()

    def waited(self, now: float) -> float | None:
        """Seconds since it was expected, told once when it is over; None if it was not."""
        expected, self.expected = self.expected, None
        return None if expected is None else now - expected
