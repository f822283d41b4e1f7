"""What may be done to the table: ask, give back, take from the dead and the late, and decide.

Everything here happens while the table's lock is held (``Table.change``). Who is to be woken when
it is given back, and what was taken from whom, is collected in ``News``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from artos.pool.accounts import Account
from artos.pool.fair_queue import FairQueue
from artos.pool.meter import held_at, in_use, started
from artos.pool.records import (
    BUSY,
    DOOR,
    FREE,
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
    resource_of,
    want_of,
)
from artos.pool.resources import Resource
from artos.pool.table import Table

NANO = 1_000_000_000

_Seats = list[tuple[int, SeatRecord]]
_Choice = tuple[FairQueue[int] | None, list[tuple[int, str]]]


@dataclass(frozen=True, slots=True)
class Revoked:
    """A lease that was taken away: its process (as seen where it runs), and how late it was."""

    workload: str
    resource: str
    pid: int
    late_seconds: float


@dataclass(slots=True)
class News:
    """What follows from a change: members to wake, leases that were taken away."""

    wake: set[int] = field(default_factory=set)
    revoked: list[Revoked] = field(default_factory=list)


class Clerk:
    """Changes the table by the rules; one for each change."""

    def __init__(self, table: Table, now: int) -> None:
        self.table, self.now, self.news = table, now, News()
        self._newcomer = NONE  # the seat whose workload has just come (back)

    # -- seats ---------------------------------------------------------------------------------

    def ask(self, seat: int, length: int) -> None:
        """Have a seat wait for a lease of ``length`` ns (0: no deadline)."""
        record = self.table.seats.edit(seat)
        self._newcomer = NONE if self._is_present(record.account) else seat
        self._settle(seat, record)
        record.state, record.since, record.length, record.cause = WAITING, self.now, length, BUSY
        self.decide(record.kind)
        if record.state == WAITING:
            self.table.accounts.edit(record.account).waits += 1
            if self.bury():
                self.decide(record.kind)

    def _is_present(self, account: int) -> bool:
        """Whether a workload waits for or uses anything, its seat that asks included."""
        return any(
            each.state == WAITING
            or (each.state == HELD and in_use(self.table.live_word(seat, METER)))
            for seat, each in self.table.seats.items()
            if each.account == account
        )

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
        seats = self.table.seats
        here = [(seat, each) for seat, each in seats.items() if each.kind == kind]
        waiting = [(seat, each) for seat, each in here if each.state == WAITING]
        held = [(seat, each) for seat, each in here if each.state == HELD]
        if waiting:
            queue, granted = self._beside_kept(kind, here, held, len(waiting))
            if len(granted) < len(waiting):
                queue, granted = self._with_kept(kind, here, held, self._wanted(waiting))
            if queue is not None:
                for seat, _ in granted:
                    if not self._lives(seats[seat].member):
                        self.leave(seats[seat].member)
                        return False
                self._book(kind, queue, granted)
                waiting = [pair for pair in waiting if pair[1].state == WAITING]
                self._note_causes(waiting, queue)
        self._set_doors([pair for pair in here if pair[1].state == HELD], self._wanted(waiting))
        return True

    def _beside_kept(self, kind: int, here: _Seats, held: _Seats, most: int) -> _Choice:
        """Who gets what if seats keep what they do not use: else each would lose it to the next."""
        used, kept = _Seats(), _Seats()
        for pair in held:
            (used if in_use(self.table.live_word(pair[0], METER)) else kept).append(pair)
        if not kept:
            return None, []
        left = self._resources(kind)
        for _, each in kept:
            left[each.resource] = left[each.resource].without(each.more_mb)
        resources = [each for each in left.values() if each.share]
        if sum(each.share for each in resources) - len(used) < most:
            return None, []
        queue = self._queue(kind, resources, used, self._heads(here, most))
        return queue, queue.grants(self.now / NANO)

    def _with_kept(self, kind: int, here: _Seats, held: _Seats, wanted: set[int]) -> _Choice:
        """Who gets what if what is not used is taken from seats that keep it, and from the late."""
        self.table.shut([seat for seat, _ in held])
        held = [pair for pair in held if self._still_holds(*pair, wanted)]
        resources = [*self._resources(kind).values()]
        free = sum(each.share for each in resources) - len(held)
        if not free and self._newcomer == NONE:
            return None, []
        queue = self._queue(kind, resources, held, self._heads(here, max(1, free)))
        return queue, queue.grants(self.now / NANO)

    def _resources(self, kind: int) -> dict[int, Resource]:
        name = self.table.kinds[kind].name
        records = self.table.resources.items()
        return {number: resource_of(each, name) for number, each in records if each.kind == kind}

    def _heads(
        self, here: list[tuple[int, SeatRecord]], most: int
    ) -> list[tuple[int, int, SeatRecord]]:
        """The first ``most`` of each queue: their queues' clocks, seats, records, oldest first.

        Those behind them get nothing now. A clock is when a queue had its last turn, or began.
        """
        turns: dict[tuple[int, int, int, int], int] = {}
        queues: dict[tuple[int, int, int, int], list[tuple[int, int, SeatRecord]]] = {}
        for seat, each in here:
            line = (each.account, each.wants, each.more_mb, each.priority)
            turns[line] = max(turns.get(line, 0), each.turn)
            if each.state == WAITING:
                queues.setdefault(line, []).append((each.since, seat, each))
        heads = []
        for line, queue in queues.items():
            queue.sort(key=lambda entry: entry[:2])
            clock = max(queue[0][0], turns[line])
            heads += [(clock, since, seat, each) for since, seat, each in queue[:most]]
        heads.sort(key=lambda entry: entry[:3])
        return [(clock, seat, each) for clock, _, seat, each in heads]

    def _wanted(self, waiting: list[tuple[int, SeatRecord]]) -> set[int]:
        """The resources that one of these could use."""
        kinds = {each.kind for _, each in waiting if each.wants == NONE}
        return {each.wants for _, each in waiting} | {
            number for number, each in self.table.resources.items() if each.kind in kinds
        }

    def _still_holds(self, seat: int, record: SeatRecord, wanted: set[int]) -> bool:
        """Whether a seat uses what it has; if not, or no longer rightly so, it is taken away."""
        until = self.table.live_word(seat, UNTIL)
        if not in_use(self.table.live_word(seat, METER)):
            self._settle(seat, self.table.seats.edit(seat))
            record.state = FREE
        elif 0 < until <= self.now and record.resource in wanted:
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

    def _queue(
        self,
        kind: int,
        here: list[Resource],
        held: _Seats,
        heads: list[tuple[int, int, SeatRecord]],
    ) -> FairQueue[int]:
        """The queue as the table has it, as far as it matters now."""
        resources, record = self.table.resources, self.table.kinds[kind]
        now = self.now / NANO
        accounts = self._accounts(kind, held)
        queue: FairQueue[int] = FairQueue(
            here,
            accounts.values(),
            fair_turns=record.fair_turns,
        )
        for each in self.table.seats.values():
            if each.left_mb and each.kind == kind:
                queue.places.fill(resources[each.wants].name, each.left_mb)
        for seat, each in held:
            want, name = want_of(each, resources), resources[each.resource].name
            queue.hold(seat, accounts[each.account], now, want=want, resource=name)
        for clock, seat, each in heads:
            account = accounts[each.account]
            if seat == self._newcomer:
                queue.arrive(account, now)
            last = resources[each.last].name if each.last in resources else ""
            want = want_of(each, resources)
            queue.wait(seat, account, clock / NANO, want=want, priority=each.priority, last=last)
        return queue

    def _accounts(self, kind: int, held: list[tuple[int, SeatRecord]]) -> dict[int, Account]:
        now = self.now / NANO
        accounts = {
            number: Account(
                each.workload, each.weight, each.held / NANO, each.lead, each.turn, since=now
            )
            for number, each in self.table.accounts.items()
            if each.kind == kind
        }
        for seat, each in held:
            meter = self.table.live_word(seat, METER)
            accounts[each.account].seconds += held_at(meter, self.now) / NANO
        return accounts

    def _book(self, kind: int, queue: FairQueue[int], granted: list[tuple[int, str]]) -> None:
        """Write into the table what was decided."""
        if queue.fair_turns != self.table.kinds[kind].fair_turns:
            self.table.kinds.edit(kind).fair_turns = queue.fair_turns
        for seat, name in granted:
            resource = self.table.resources.find(name=name)
            assert resource is not None
            self._grant(seat, resource)
        for number, record in self.table.accounts.items():
            account = queue.accounts[record.workload] if record.kind == kind else None
            if account and (account.lead, account.turn) != (record.lead, record.turn):
                edited = self.table.accounts.edit(number)
                edited.lead, edited.turn = account.lead, account.turn

    def _note_causes(self, waiting: list[tuple[int, SeatRecord]], queue: FairQueue[int]) -> None:
        causes: dict[int, int] = {}
        for seat, each in waiting:
            if each.wants not in causes:
                free = queue.places.has_a_free_unit(want_of(each, self.table.resources))
                causes[each.wants] = MEMORY if free else BUSY
            if each.cause != causes[each.wants]:
                self.table.seats.edit(seat).cause = causes[each.wants]

    def _grant(self, seat: int, resource: int) -> None:
        record = self.table.seats.edit(seat)
        self._count_wait(record)
        self.table.accounts.edit(record.account).turns += 1
        record.state, record.resource, record.turn = HELD, resource, self.now
        until = self.now + record.length if record.length else 0
        self.table.set_live(seat, UNTIL, until)
        self.table.set_live(seat, SINCE, self.now)
        self.table.set_live(seat, DOOR, OPEN)
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

    def _set_doors(self, held: list[tuple[int, SeatRecord]], wanted: set[int]) -> None:
        for seat, each in held:
            door = WANTED if each.resource in wanted else OPEN
            if self.table.live_word(seat, DOOR) != door:
                self.table.set_live(seat, DOOR, door)

    # -- members -------------------------------------------------------------------------------

    def earliest_end(self, member: int) -> int:
        """When the first lease ends at the latest that a seat of a member waits for; 0: no end."""
        seats = self.table.seats.items()
        mine = [(n, each) for n, each in seats if (each.member, each.state) == (member, WAITING)]
        wanted = self._wanted(mine)
        ends = [
            self.table.live_word(seat, UNTIL)
            for seat, each in seats
            if each.state == HELD and each.resource in wanted
        ]
        return min((end for end in ends if end), default=0)

    def wake_those_that_wait(self) -> None:
        """Have every member with a seat that waits look at the table anew."""
        for each in self.table.seats.values():
            if each.state == WAITING:
                self.news.wake.add(each.member)
