"""From one node to another: how actors leave, and how they come."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from artos.clock import Clock
from artos.errors import NoImage
from artos.protocol.invocations import Stop
from artos.runtime.held import HAND_OVER_SECONDS
from artos.specs.members import Member
from artos.system.exit_report import START_SECONDS
from triggers.passers import Mailboxes
from workers.actors.actor_record import ActorRecord, State
from workers.actors.arrival import Arrival
from workers.actors.branches import Branches
from workers.actors.idle_tiers import IdleTiers
from workers.actors.spawners.spawner import Place
from workers.actors.turns import Turns
from workers.checkpoint.bundle import Home
from workers.checkpoint.images import Image


class Moves:
    """An actor moves by its image, or by what it holds, which is a file; no method waits.

    What continues its episode (``branches``) is ended before: it is no reason to stay.
    """

    def __init__(
        self,
        records: Mapping[Member, ActorRecord],
        place: Place,
        mail: Mailboxes,
        turns: Turns,
        tiers: IdleTiers,
        branches: Branches,
        clock: Clock,
    ) -> None:
        self._records, self._place, self._mail = records, place, mail
        self._turns, self._tiers, self._branches, self._clock = turns, tiers, branches, clock
        self._arrivals: list[Arrival] = []

    def __repr__(self) -> str:
        return f"<Moves {len(self._arrivals)} arrived>"

    # -- out -----------------------------------------------------------------------------------

    def image_of(self, member: Member) -> Image | None:
        """The image of an idle actor; None while it is being made: ask again.

        Raises:
            ArtosError, OSError: no image can be made, and why; the actor waits as before.
        """
        record = self._records[member]
        if not self._branches.leave(member) or record.state in (State.DUMPING, State.RESTORING):
            return None
        if record.state is State.CHECKPOINTED and not record.busy:
            return record.image
        self._check_waits_in_memory(record, record.refused)
        self._tiers.checkpoint(record)
        self._turns.under_way.add(member)
        return None

    def hand_over(self, member: Member) -> bool:
        """Whether an idle actor has written down what it holds, and ended; if not yet, ask again.

        It is started again from there if it is needed here.

        Raises:
            NoImage: it is at work; it goes on as before.
        """
        record = self._records[member]
        under_way = (State.DUMPING, State.RESTORING, State.HANDING_OVER)
        if not self._branches.leave(member) or record.state in under_way:
            return False
        if record.state is State.COLD and not record.busy:
            return True
        if record.state is State.CHECKPOINTED and not record.busy:
            self._turns.restore(record)
            return False
        self._check_waits_in_memory(record)
        if record.state is State.FROZEN:
            self._tiers.thaw(record)
        record.hand_over(self._clock.now())
        self._mail.clear(member)
        self._mail.passers[member].pass_message(Stop(str(self._place.site.held_path(member))))
        return False

    def is_late(self, record: ActorRecord) -> bool:
        """Whether an actor's process takes too long over what only its node waits for."""
        seconds = self._clock.now() - record.begun
        if record.state is State.HANDING_OVER:
            return seconds > HAND_OVER_SECONDS
        return record.state is State.STARTING and record.stayed and seconds > START_SECONDS

    def _check_waits_in_memory(self, record: ActorRecord, refused: str = "") -> None:
        idle = record.state in (State.PARKED, State.FROZEN) and not record.busy
        if why := refused if idle else f"it is {record.state}":
            raise NoImage(record.actor, why)

    # -- in ------------------------------------------------------------------------------------

    def expect_image(self, member: Member) -> None:
        """Have an actor's invocations wait for its image, which is on its way here."""
        self._records[member].expect(self._clock.now())
        self._mail.clear(member)  # no process reads it until the image is here

    def take_in(self, member: Member, image: Image) -> None:
        """Make a process from the expected image, which is here; ``arrivals`` says how it went."""
        record = self._records[member]
        record.arrive(image)
        self._turns.restore(record)

    def give_up_image(self, member: Member, *, came: bool = False) -> None:
        """Start an actor again, as the expected image will not come.

        From scratch, or where what it held ``came`` instead, from that.
        """
        record = self._records[member]
        record.lose(came=came)
        record.end_arrival(self._clock.now())
        self._turns.resume(record)

    def arrived(self, record: ActorRecord) -> None:
        """A dump or restore of an actor is over; if it was expected, that was its arrival."""
        if (seconds := record.end_arrival(self._clock.now())) is not None:
            self._arrivals.append(Arrival(record.member, seconds, record.lost))

    def arrivals(self) -> list[Arrival]:
        """Actors whose arrival from another node ended since the last call, well or not."""
        arrivals, self._arrivals = self._arrivals, []
        return arrivals

    @property
    def memory(self) -> Path:
        """The file with the memory that the actors here share, if they do."""
        return self._place.memory

    def home_of(self, member: Member) -> Home:
        """Where the actor lives, in the form that bundles use."""
        place = self._place
        return Home(place.site_for(member), str(place.path_of(member)), place.code)
