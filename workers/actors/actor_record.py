"""One registered actor as its process manager sees it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from artos.protocol.invocations import Invoke
from artos.system.child import Child
from workers.actors.launchers.launcher import Kind
from workers.actors.lifecycle import Move, State, after
from workers.actors.tier_policy import IdleForecast
from workers.checkpoint.checkpointer import Shot
from workers.checkpoint.criu.driver import Operation
from workers.checkpoint.images import Image
from workers.host.slots import Slot


@dataclass
class ActorRecord:
    """State, process, and what the actor has still to do.

    ``waiting`` are invocations kept back until it holds a slot; ``unanswered`` counts those in its
    mailbox. ``queued`` is whether it waits for a slot or holds one. ``retired`` actors are beyond
    the number that takes part; ``fresh`` ones have not run since they came up. ``stale`` ones must
    bind the newest weights before anything else: they were away while those changed. ``booked`` is
    the state of waiting that is in the accounts. ``refused`` says why no image could be taken since
    it last ran, ``lost`` why its image was of no use. ``expected`` is since when it is to come here
    from another node, None once it has. Times are seconds of the clock.
    """

    member: int
    state: State = State.COLD
    child: Child | None = None
    kind: Kind = "cold"
    waiting: deque[Invoke] = field(default_factory=deque)
    unanswered: int = 0
    queued: bool = False
    retired: bool = False
    fresh: bool = False
    stale: bool = False
    pinned: Slot | None = None
    image: Image | None = None
    shot: Shot | None = None
    revival: Operation | None = None
    refused: str = ""
    lost: str = ""
    expected: float | None = None
    booked: State | None = None
    asked: float = 0.0
    begun: float = 0.0
    idle_since: float = 0.0
    forecast: IdleForecast = field(default_factory=IdleForecast)

    @property
    def actor(self) -> int:
        """The actor's number."""
        return self.member - 1

    @property
    def busy(self) -> bool:
        """Whether it has something to do."""
        return bool(self.waiting or self.unanswered)

    def move(self, move: Move) -> None:
        """Go on to the state that ``move`` leads to.

        Raises:
            ForbiddenMove: there is no such move from here.
        """
        self.state = after(self.state, move)

    def forget(self) -> None:
        """It has no process any more, and what was asked of that one is void."""
        self.waiting.clear()
        self.unanswered = 0
        self.child = self.pinned = None
        self.stale = False
        self.expected = None
        self.state = State.COLD
