"""The life of an actor as a table: which move leads from which state to which."""

from __future__ import annotations

from enum import StrEnum


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
