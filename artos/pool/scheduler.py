"""What may be done to the table: queue, give back, reclaim from ended and overdue holders, decide.

All of it happens while the table's lock is held (``Table.change``). Which members to wake once the
lock is given back, and which leases were revoked, is collected in ``Effects``.
"""

from __future__ import annotations

from artos.pool.choice import (
    NANO,
    Choice,
    Contenders,
    Seats,
    choose,
    handed_over_to_first,
    lead_on_arrival,
    next_holders,
    resources_of,
    wanted,
)
from artos.pool.effects import Effects, Revoked
from artos.pool.meter import held_at, in_use, started
from artos.pool.records import (
    ASKS,
    BUSY,
    DEMAND,
    EARLY,
    FREE,
    GRANTED,
    HELD,
    MEMORY,
    METER,
    NEXT,
    NONE,
    REVOKED,
    SINCE,
    TAKEN_AWAY,
    UNTIL,
    UNWANTED,
    WAITING,
    WANTED,
    SeatRecord,
    want_of,
)
from artos.pool.table import Table


class LeaseScheduler:
    """Changes the table by the rules; one is made for each change.

    It begins by booking a lease that was handed over without one (``hand_overs``).
    """

    def __init__(self, table: Table, now: int) -> None:
        self.table, self.now, self.effects = table, now, Effects()
        if (handed := table.hand_overs.unbooked) is not None:
            seat, self.now = handed
            self._book_hand_over(seat)
            self.now = now

    def _book_hand_over(self, seat: int) -> None:
        """Book that a seat's resource went to the seat it was promised to (``next_holders``)."""
        record = self.table.seats.edit(seat)
        resource, kind = record.resource, record.kind
        self._settle_account(seat, record)
        record.state = FREE
        here = Contenders.of(self.table, kind)
        choice = handed_over_to_first(self.table, here, seat, resource, self.now)
        self._book_choice(kind, choice)
        self.table.booked()
        if self._all_live(choice):  # else that decided already
            self.decide(kind)

    # -- seats ---------------------------------------------------------------------------------

    def queue_seat(self, seat: int, length: int) -> None:
        """Have a seat wait for a lease of ``length`` ns (0: no deadline).

        One of a party waits once all of them have asked.
        """
        record = self.table.seats.edit(seat)
        here = Contenders.of(self.table, record.kind)
        used = [pair for pair in here.held if in_use(self.table.lease_word(pair[0], METER))]
        if all(each.account != record.account for _, each in here.waiting + used):
            # Its workload has just come (back): it starts where the others are.
            lead = lead_on_arrival(self.table, record, here.waiting + used, used, self.now)
            if lead != self.table.accounts[record.account].lead:
                self.table.accounts.edit(record.account).lead = lead
        self._settle_account(seat, record)
        record.state, record.since, record.length, record.cause = WAITING, self.now, length, BUSY
        if record.party:
            self._gather(record.party)
        self.decide(record.kind)
        if record.state == WAITING:
            self.table.accounts.edit(record.account).waits += record.party_seats or 1
            if self.reclaim():
                self.decide(record.kind)

    def give_back_lease(self, seat: int) -> bool:
        """End what a seat has or waits for; False if it had been revoked."""
        record = self.table.seats.edit(seat)
        kept = record.state != REVOKED
        self._settle_account(seat, record)
        self._count_wait(record)
        record.state = FREE
        if record.party:
            self._gather(record.party)
        self.decide(record.kind)
        return kept

    def _gather(self, party: int) -> None:
        """Have a party wait for its turn if all of its seats ask, and else none of them."""
        seats = self.table.seats.items()
        asking = [pair for pair in seats if pair[1].party == party and pair[1].state in ASKS]
        for seat, each in asking:
            state = WAITING if len(asking) == each.party_seats else EARLY
            if each.state != state:
                self._count_wait(each)
                self.table.seats.edit(seat)
                each.state, each.since, each.cause = state, self.now, BUSY

    def set_memory(self, seat: int, needed: int, left: int, *, remember: bool = True) -> None:
        """A seat needs so much memory (MB) while it holds, and leaves so much there at other times.

        What it needs is to be remembered for the next process of its workload, or not.
        If that is less than before, those that wait may get it at once.
        """
        record = self.table.seats.edit(seat)
        record.memory_mb, record.left_mb = needed, left
        if remember:
            self.table.accounts.edit(record.account).memory_mb = needed
        self.decide(record.kind)

    def remove_seat(self, seat: int) -> None:
        """Remove a seat, and end what it has or waits for."""
        self.table.seats.edit(seat).left_mb = 0
        self.give_back_lease(seat)
        self.table.seats.remove(seat)

    def remove_member(self, member: int) -> None:
        """Remove a member, whose process may have ended, and all its seats."""
        kinds, parties = dict[int, None](), set[int]()
        for seat, record in self.table.seats.items():
            if record.member == member:
                kinds[record.kind] = None
                if record.party:
                    parties.add(record.party)
                self._settle_account(seat, record)
                self._count_wait(record)
                self._clear_lease(seat)
                self.table.seats.remove(seat)
        self.table.members.remove(member)
        for party in parties:
            self._gather(party)
        for kind in kinds:
            self.decide(kind)

    def reclaim(self) -> list[int]:
        """Free all that members had whose processes have ended; returns these members."""
        ended = [number for number, _ in self.table.members.items() if not self._lives(number)]
        for number in ended:
            if number in self.table.members:  # a decision may have found it in the meantime
                self.remove_member(number)
        return ended

    def _lives(self, member: int) -> bool:
        return self.table.locks.holder(member) is not None

    def _settle_account(self, seat: int, record: SeatRecord) -> None:
        """Add what a seat has held to its account, and free it."""
        if record.state == HELD:
            meter = self.table.lease_word(seat, METER)
            self.table.accounts.edit(record.account).held += held_at(meter, self.now)
            record.last, record.resource = record.resource, NONE
        if record.state != WAITING:  # a free one, too, whose process may have begun just then
            self._clear_lease(seat)

    def _clear_lease(self, seat: int) -> None:
        # It stays marked as wanted until it is granted something: else its process, which may not
        # know yet, could use the old lease again without the lock.
        self.table.set_lease_word(seat, DEMAND, WANTED)
        self.table.set_lease_word(seat, NEXT, 0)
        self.table.set_lease_word(seat, UNTIL, 0)
        self.table.set_lease_word(seat, METER, 0)

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
        while True:
            here, choice = Contenders.of(self.table, kind), None
            if here.waiting:
                choice = self._choice_beside_kept(here)
                if choice is None or len(choice.granted) < len(here.waiting):
                    choice = self._choice_with_kept(here)
            if choice is None or self._all_live(choice):
                break
        if choice is not None:
            self._book_choice(kind, choice)
            here.regroup()
            places, resources = choice.places, self.table.resources
            causes = dict[tuple[int, int, bool], int]()
            busy = {  # parties: memory is not what they wait for while one of them lacks a unit
                each.party
                for _, each in here.waiting
                if each.party and not places.has_a_free_unit(want_of(each, resources))
            }
            for seat, each in here.waiting:
                if (wish := (each.wants, each.more_mb, each.party in busy)) not in causes:
                    want = want_of(each, resources)
                    lacks = places.has_a_free_unit(want) and places.room(want) is None
                    causes[wish] = MEMORY if lacks and each.party not in busy else BUSY
                if each.cause != causes[wish]:
                    self.table.seats.edit(seat).cause = causes[wish]
        # Those that hold see by their lease words whether others wait, and who gets it next.
        sought = wanted(self.table, here.waiting)
        next_seats = next_holders(self.table, here, self.now)
        for seat, each in here.held:
            demand = WANTED if each.resource in sought else UNWANTED
            for word, value in ((DEMAND, demand), (NEXT, next_seats.get(seat, -1) + 1)):
                if self.table.lease_word(seat, word) != value:
                    self.table.set_lease_word(seat, word, value)

    def _all_live(self, choice: Choice) -> bool:
        """Whether all live that are to get something; removes one that does not."""
        for seat, _ in choice.granted:
            member = self.table.seats[seat].member
            if not self._lives(member):
                self.remove_member(member)
                return False
        return True

    def _choice_beside_kept(self, here: Contenders) -> Choice | None:
        """Who gets what if seats keep what they do not use; None if that is not enough for all.

        Without this, seats that each use a resource now and then would take it from one another.
        """
        used, kept = Seats(), Seats()
        for pair in here.held:
            (used if in_use(self.table.lease_word(pair[0], METER)) else kept).append(pair)
        if not kept:
            return None
        left = resources_of(self.table, here.kind)
        for _, each in kept:
            left[each.resource] = left[each.resource].without(each.more_mb)
        resources = {number: each for number, each in left.items() if each.share}
        if sum(each.share for each in resources.values()) - len(used) < (most := len(here.waiting)):
            return None
        return choose(self.table, here, resources, used, most, self.now)

    def _choice_with_kept(self, here: Contenders) -> Choice | None:
        """Who gets what if seats lose what they do not use, and overdue holders what they have."""
        if here.held:
            self.table.mark_wanted([seat for seat, _ in here.held])
            sought = wanted(self.table, here.waiting)
            here.held = [pair for pair in here.held if self._still_holds(*pair, sought)]
        resources = resources_of(self.table, here.kind)
        free = sum(each.share for each in resources.values()) - len(here.held)
        return choose(self.table, here, resources, here.held, free, self.now) if free else None

    def _still_holds(self, seat: int, record: SeatRecord, sought: set[int]) -> bool:
        """Whether a seat uses what it has, and in time; if not, it loses it."""
        until = self.table.lease_word(seat, UNTIL)
        meter = self.table.lease_word(seat, METER)
        if not in_use(meter):
            self._settle_account(seat, self.table.seats.edit(seat))
            record.state = FREE
        elif 0 < until <= self.now and record.resource in sought:
            record = self.table.seats.edit(seat)
            account = self.table.accounts.edit(record.account)
            name = self.table.resources[record.resource].name
            pid, overdue = self.table.members[record.member].pid, (self.now - until) / NANO
            self.effects.revoked.append(Revoked(account.workload, name, pid, overdue))
            account.held += held_at(meter, self.now)
            record.state, record.last, record.resource = REVOKED, record.resource, NONE
            self.table.set_lease_word(seat, DEMAND, TAKEN_AWAY)
            self.table.set_lease_word(seat, NEXT, 0)
        return record.state == HELD

    def _book_choice(self, kind: int, choice: Choice) -> None:
        """Write what was decided into the table."""
        table = self.table
        if choice.fair_turns != table.kinds[kind].fair_turns:
            table.kinds.edit(kind).fair_turns = choice.fair_turns
        for seat, resource in choice.granted:
            record = table.seats.edit(seat)
            self._count_wait(record)
            table.accounts.edit(record.account).turns += 1
            record.state, record.resource, record.turn = HELD, resource, self.now
            until = self.now + record.length if record.length else 0
            if not table.lease_word(seat, METER):  # else it was handed over, and has begun
                table.set_lease_word(seat, UNTIL, until)
                table.set_lease_word(seat, SINCE, self.now)
                table.set_lease_word(seat, DEMAND, UNWANTED)
                table.set_lease_word(seat, GRANTED, resource)
                table.set_lease_word(seat, METER, started(0, self.now))
                self.effects.wake.add(record.member)
            for number, member in table.members.items():
                if 0 < until < member.alarm:  # it would look only after this lease has ended
                    table.members.edit(number).alarm = until
                    self.effects.wake.add(number)
        for number, (lead, turn) in choice.accounts.items():
            account = table.accounts.edit(number)
            account.lead, account.turn = lead, turn

    # -- members -------------------------------------------------------------------------------

    def earliest_end(self, member: int) -> int:
        """When the first lease ends at the latest that a seat of a member waits for; 0: no end.

        It waits for what its party does: the one that asks last looks for all, as the others
        could not know yet for what they wait.
        """
        seats = self.table.seats.items()
        parties = {each.party for _, each in seats if each.member == member and each.party}
        mine = [
            (number, each)
            for number, each in seats
            if each.state == WAITING and (each.member == member or each.party in parties)
        ]
        sought = wanted(self.table, mine)
        ends = [
            self.table.lease_word(seat, UNTIL)
            for seat, each in seats
            if each.state == HELD and each.resource in sought
        ]
        return min((end for end in ends if end), default=0)

    def wake_those_that_wait(self) -> None:
        """Have every member with a seat that waits look at the table again."""
        for each in self.table.seats.values():
            if each.state in ASKS:
                self.effects.wake.add(each.member)
