"""What may be done to the table: ask, give back, take from the dead and the late, and decide.

Everything here happens while the table's lock is held (``Table.change``). Who is to be woken when
it is given back, and what was taken from whom, is collected in ``News``.
"""

from __future__ import annotations

from artos.pool.choice import (
    NANO,
    Choice,
    Present,
    Seats,
    choose,
    heirs,
    inherited,
    lead_on_arrival,
    resources_of,
    wanted,
)
from artos.pool.meter import held_at, in_use, started
from artos.pool.news import News, Revoked
from artos.pool.records import (
    BUSY,
    DOOR,
    FREE,
    GRANTED,
    HEIR,
    HELD,
    MEMORY,
    METER,
    NONE,
    OPEN,
    REVOKED,
    REVOKED_DOOR,
    SINCE,
    UNTIL,
    WAITING,
    WANTED,
    SeatRecord,
    want_of,
)
from artos.pool.resources import Places
from artos.pool.table import Table


class Clerk:
    """Changes the table by the rules; one for each change.

    It begins with what was handed over without one (``hand_overs``).
    """

    def __init__(self, table: Table, now: int) -> None:
        self.table, self.now, self.news = table, now, News()
        if (handed := table.hand_overs.unbooked) is not None:
            seat, self.now = handed
            self._book_hand_over(seat)
            self.now = now

    def _book_hand_over(self, seat: int) -> None:
        """What was promised to the heir of a seat (``heirs``) was given to it at that time."""
        record = self.table.seats.edit(seat)
        resource, kind = record.resource, record.kind
        self._settle(seat, record)
        record.state = FREE
        choice = inherited(self.table, Present.of(self.table, kind), seat, resource, self.now)
        self._book(kind, choice)
        self.table.booked()
        if not self._all_live(choice):
            return  # which decided
        self.decide(kind)

    # -- seats ---------------------------------------------------------------------------------

    def ask(self, seat: int, length: int) -> None:
        """Have a seat wait for a lease of ``length`` ns (0: no deadline)."""
        record = self.table.seats.edit(seat)
        self._arrive(record)
        self._settle(seat, record)
        record.state, record.since, record.length, record.cause = WAITING, self.now, length, BUSY
        self.decide(record.kind)
        if record.state == WAITING:
            self.table.accounts.edit(record.account).waits += 1
            if self.bury():
                self.decide(record.kind)

    def _arrive(self, record: SeatRecord) -> None:
        """Have the workload of a seat start where the others are, if it has just come (back)."""
        here = Present.of(self.table, record.kind)
        used = [pair for pair in here.held if in_use(self.table.live_word(pair[0], METER))]
        if all(each.account != record.account for _, each in here.waiting + used):
            lead = lead_on_arrival(self.table, record, here.waiting + used, used, self.now)
            if lead != self.table.accounts[record.account].lead:
                self.table.accounts.edit(record.account).lead = lead

    def give_back(self, seat: int) -> bool:
        """End what a seat has or waits for; False if it had been taken away."""
        record = self.table.seats.edit(seat)
        kept = record.state != REVOKED
        self._settle(seat, record)
        self._count_wait(record)
        record.state = FREE
        self.decide(record.kind)
        return kept

    def set_memory(self, seat: int, needed: int, left: int) -> None:
        """A seat needs so much memory (MB) while it holds, and leaves so much there at other times.

        Less than before is for those that wait.
        """
        record = self.table.seats.edit(seat)
        record.memory_mb, record.left_mb = needed, left
        self.table.accounts.edit(record.account).memory_mb = needed
        self.decide(record.kind)

    def free(self, seat: int) -> None:
        """Have a seat no more, and end what it has or waits for."""
        self.table.seats.edit(seat).left_mb = 0
        self.give_back(seat)
        self.table.seats.remove(seat)

    def leave(self, member: int) -> None:
        """Free a member, which may be dead, and all its seats."""
        kinds: dict[int, None] = {}
        for seat, record in self.table.seats.items():
            if record.member == member:
                kinds[record.kind] = None
                self._settle(seat, record)
                self._count_wait(record)
                self._clear(seat)
                self.table.seats.remove(seat)
        self.table.members.remove(member)
        for kind in kinds:
            self.decide(kind)

    def bury(self) -> list[int]:
        """Free all that the dead had; returns which members have died."""
        dead = [number for number, _ in self.table.members.items() if not self._lives(number)]
        for number in dead:
            if number in self.table.members:  # a decision may have found it meanwhile
                self.leave(number)
        return dead

    def _lives(self, member: int) -> bool:
        return self.table.locks.holder(member) is not None

    def _settle(self, seat: int, record: SeatRecord) -> None:
        """Count what a seat has held, and free it."""
        if record.state == HELD:
            meter = self.table.live_word(seat, METER)
            self.table.accounts.edit(record.account).held += held_at(meter, self.now)
            record.last, record.resource = record.resource, NONE
        if record.state in (HELD, REVOKED):
            self._clear(seat)

    def _clear(self, seat: int) -> None:
        """Its door stays shut until it is granted something: it could use its old lease again."""
        self.table.set_live(seat, DOOR, WANTED)
        self.table.set_live(seat, HEIR, 0)
        self.table.set_live(seat, UNTIL, 0)
        self.table.set_live(seat, METER, 0)

    def _count_wait(self, record: SeatRecord) -> None:
        if record.state == WAITING:
            account, waited = self.table.accounts.edit(record.account), self.now - record.since
            if record.cause == MEMORY:
                account.waited_memory += waited
            else:
                account.waited_busy += waited

    # -- decisions -----------------------------------------------------------------------------

    def decide(self, kind: int) -> None:
        """Give what is free of a kind to those that wait."""
        while not self._decided(kind):
            pass

    def _decided(self, kind: int) -> bool:
        """One try; False if somebody who was to get something turned out to be dead."""
        here = Present.of(self.table, kind)
        if here.waiting:
            choice = self._beside_kept(here)
            if choice is None or len(choice.granted) < len(here.waiting):
                choice = self._with_kept(here)
            if choice is not None:
                if not self._all_live(choice):
                    return False
                self._book(kind, choice)
                here.regroup()
                self._note_causes(here.waiting, choice.places)
        self._set_doors(here)
        return True

    def _all_live(self, choice: Choice) -> bool:
        """Whether all live that are to get something; frees one that does not."""
        for seat, _ in choice.granted:
            member = self.table.seats[seat].member
            if not self._lives(member):
                self.leave(member)
                return False
        return True

    def _beside_kept(self, here: Present) -> Choice | None:
        """Who gets what if seats keep what they do not use: else each would lose it to the next."""
        used, kept = Seats(), Seats()
        for pair in here.held:
            (used if in_use(self.table.live_word(pair[0], METER)) else kept).append(pair)
        if not kept:
            return None
        left = resources_of(self.table, here.kind)
        for _, each in kept:
            left[each.resource] = left[each.resource].without(each.more_mb)
        resources = {number: each for number, each in left.items() if each.share}
        if sum(each.share for each in resources.values()) - len(used) < (most := len(here.waiting)):
            return None
        return choose(self.table, here, resources, used, most, self.now)

    def _with_kept(self, here: Present) -> Choice | None:
        """Who gets what if what is not used is taken from seats that keep it, and from the late."""
        if here.held:
            self.table.shut([seat for seat, _ in here.held])
            sought = wanted(self.table, here.waiting)
            here.held = [pair for pair in here.held if self._still_holds(*pair, sought)]
        resources = resources_of(self.table, here.kind)
        free = sum(each.share for each in resources.values()) - len(here.held)
        return choose(self.table, here, resources, here.held, free, self.now) if free else None

    def _still_holds(self, seat: int, record: SeatRecord, sought: set[int]) -> bool:
        """Whether a seat uses what it has; if not, or no longer rightly so, it is taken away."""
        until = self.table.live_word(seat, UNTIL)
        if not in_use(self.table.live_word(seat, METER)):
            self._settle(seat, self.table.seats.edit(seat))
            record.state = FREE
        elif 0 < until <= self.now and record.resource in sought:
            self._revoke(seat, self.table.seats.edit(seat), until)
        return record.state == HELD

    def _revoke(self, seat: int, record: SeatRecord, until: int) -> None:
        resource, member = record.resource, self.table.members[record.member]
        account = self.table.accounts[record.account]
        late = (self.now - until) / NANO
        name = self.table.resources[resource].name
        self.news.revoked.append(Revoked(account.workload, name, member.pid, late))
        meter = self.table.live_word(seat, METER)
        self.table.accounts.edit(record.account).held += held_at(meter, self.now)
        record.state, record.last, record.resource = REVOKED, resource, NONE
        self.table.set_live(seat, DOOR, REVOKED_DOOR)
        self.table.set_live(seat, HEIR, 0)

    def _book(self, kind: int, choice: Choice) -> None:
        """Write into the table what was decided."""
        if choice.fair_turns != self.table.kinds[kind].fair_turns:
            self.table.kinds.edit(kind).fair_turns = choice.fair_turns
        for seat, resource in choice.granted:
            self._grant(seat, resource)
        for number, (lead, turn) in choice.accounts.items():
            account = self.table.accounts.edit(number)
            account.lead, account.turn = lead, turn

    def _note_causes(self, waiting: Seats, places: Places) -> None:
        causes: dict[int, int] = {}
        for seat, each in waiting:
            if each.wants not in causes:
                free = places.has_a_free_unit(want_of(each, self.table.resources))
                causes[each.wants] = MEMORY if free else BUSY
            if each.cause != causes[each.wants]:
                self.table.seats.edit(seat).cause = causes[each.wants]

    def _grant(self, seat: int, resource: int) -> None:
        record = self.table.seats.edit(seat)
        self._count_wait(record)
        self.table.accounts.edit(record.account).turns += 1
        record.state, record.resource, record.turn = HELD, resource, self.now
        until = self.now + record.length if record.length else 0
        if not self.table.live_word(seat, METER):  # else it was handed over, and has begun
            self.table.set_live(seat, UNTIL, until)
            self.table.set_live(seat, SINCE, self.now)
            self.table.set_live(seat, DOOR, OPEN)
            self.table.set_live(seat, GRANTED, resource)
            self.table.set_live(seat, METER, started(0, self.now))
            self.news.wake.add(record.member)
        if until:
            self._warn_of(until)

    def _warn_of(self, until: int) -> None:
        """Wake those that would look only after a lease has ended."""
        for number, member in self.table.members.items():
            if member.alarm > until:
                self.table.members.edit(number).alarm = until
                self.news.wake.add(number)

    def _set_doors(self, here: Present) -> None:
        """Tell those that hold whether others wait for that, and who gets it next."""
        sought, next_ones = wanted(self.table, here.waiting), heirs(self.table, here, self.now)
        for seat, each in here.held:
            door = WANTED if each.resource in sought else OPEN
            for word, value in ((DOOR, door), (HEIR, next_ones.get(seat, -1) + 1)):
                if self.table.live_word(seat, word) != value:
                    self.table.set_live(seat, word, value)

    # -- members -------------------------------------------------------------------------------

    def earliest_end(self, member: int) -> int:
        """When the first lease ends at the latest that a seat of a member waits for; 0: no end."""
        seats = self.table.seats.items()
        mine = [(n, each) for n, each in seats if (each.member, each.state) == (member, WAITING)]
        sought = wanted(self.table, mine)
        ends = [
            self.table.live_word(seat, UNTIL)
            for seat, each in seats
            if each.state == HELD and each.resource in sought
        ]
        return min((end for end in ends if end), default=0)

    def wake_those_that_wait(self) -> None:
        """Have every member with a seat that waits look at the table anew."""
        for each in self.table.seats.values():
            if each.state == WAITING:
                self.news.wake.add(each.member)
