"""Who gets which resource of a kind next: the table's fair queue, rebuilt as far as it matters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from artos.pool.accounts import Account
from artos.pool.fair_queue import FairQueue, turn_of_one
from artos.pool.meter import held_at
from artos.pool.records import (
    HELD,
    METER,
    NONE,
    WAITING,
    Area,
    ResourceRecord,
    SeatRecord,
    want_of,
)
from artos.pool.resources import Places, Resource, Want
from artos.pool.table import Table

NANO = 1_000_000_000

Seats = list[tuple[int, SeatRecord]]
_Line = tuple[int, ...]
"""What the seats of one queue have in common: account, resource wanted, memory and priority; or
their party."""


class Choice(NamedTuple):
    """What was decided, and what has changed by that."""

    granted: list[tuple[int, int]]
    """Seats, and the resource that each gets, by number."""
    places: Places
    """What is taken after that."""
    fair_turns: int
    accounts: dict[int, tuple[float, int]]
    """The lead and the last turn of those accounts for which they changed."""


class FirstInLine(NamedTuple):
    """The first seat of a queue."""

    clock: int
    """When the queue had its last turn, or began to wait (ns)."""
    since: int
    seat: int
    record: SeatRecord
    beside: Sequence[tuple[int, SeatRecord]] = ()
    """The other seats of its party."""

    def want(self, resources: Area[ResourceRecord]) -> Want:
        """What it asks for, with its party."""
        own = want_of(self.record, resources)
        if not self.beside:
            return own
        return own._replace(beside=tuple(want_of(each, resources) for _, each in self.beside))

    def gets(self, resource: int) -> list[tuple[int, int]]:
        """What each seat has once this one has ``resource``."""
        return [(self.seat, resource), *((seat, each.wants) for seat, each in self.beside)]


@dataclass(slots=True)
class Contenders:
    """The seats for one kind of resource: all, those that wait, and those that hold."""

    kind: int
    seats: Seats
    waiting: Seats
    held: Seats

    @classmethod
    def of(cls, table: Table, kind: int) -> Contenders:
        """The seats of a table for this kind."""
        here = cls(kind, [pair for pair in table.seats.items() if pair[1].kind == kind], [], [])
        here.regroup()
        return here

    def regroup(self) -> None:
        """Look again which of them wait and which hold."""
        self.waiting = [pair for pair in self.seats if pair[1].state == WAITING]
        self.held = [pair for pair in self.seats if pair[1].state == HELD]


def resources_of(table: Table, kind: int) -> dict[int, Resource]:
    """The resources of a kind, by number. Without UUIDs: which GPU each is does not matter here."""
    name = table.kinds[kind].name
    records = table.resources.items()
    return {
        number: Resource(each.name, name, each.share, each.memory_mb)
        for number, each in records
        if each.kind == kind
    }


def wanted(table: Table, waiting: Seats) -> set[int]:
    """The resources that at least one of these seats could use."""
    found = {each.wants for _, each in waiting}
    if NONE in found:
        kinds = {each.kind for _, each in waiting if each.wants == NONE}
        found |= {number for number, each in table.resources.items() if each.kind in kinds}
    return found


def choose(
    table: Table,
    here: Contenders,
    among: dict[int, Resource],
    held: Seats,
    most: int,
    now: int,
) -> Choice:
    """Who gets which of the resources ``among``, while the seats in ``held`` keep theirs.

    At most ``most`` seats get any.
    """
    heads = _heads(here, most)
    if len(heads) == 1:
        return _alone(table, here.kind, among, held, heads[0], now)
    return _fairest(table, here.kind, among, held, heads, now)


def next_holders(table: Table, here: Contenders, now: int) -> dict[int, int]:
    """By seat that holds, the seat that gets its resource next, as far as that is certain.

    It is certain where a single queue waits: however long that takes, its first seat has no one
    that it would have to be compared with. Not so a party, which needs more than that resource.
    """
    if not here.waiting or not here.held or len(heads := _heads(here, 1)) > 1:
        return {}
    head = heads[0]
    if head.beside:
        return {}
    return {
        seat: head.seat
        for seat, each in here.held
        if head.record.wants in (NONE, each.resource)
        and (
            not table.resources[each.resource].memory_mb
            or handed_over_to_first(table, here, seat, each.resource, now).granted
        )
    }


def handed_over_to_first(
    table: Table, here: Contenders, seat: int, resource: int, now: int
) -> Choice:
    """The first seat that waits gets the resource that ``seat`` gave back, if memory allows."""
    among = {resource: resources_of(table, here.kind)[resource]}
    others = [pair for pair in here.held if pair[1].resource == resource and pair[0] != seat]
    return _alone(table, here.kind, among, others, _heads(here, 1)[0], now)


def lead_on_arrival(
    table: Table, record: SeatRecord, present: Seats, held: Seats, now: int
) -> float:
    """The lead of a seat's workload that was not present, as of now: rule 2 of ``fair_queue``."""
    accounts, at = _accounts(table, record.kind, held, now), now / NANO
    others = {each.account for _, each in present}
    virtual = [each.virtual(at) for n, each in accounts.items() if not others or n in others]
    mine = accounts[record.account]
    mine.catch_up(min(virtual) if others else max(virtual), at)
    return mine.lead


def _alone(
    table: Table, kind: int, among: dict[int, Resource], held: Seats, head: FirstInLine, now: int
) -> Choice:
    """The choice where only one seat can be next; most decisions are of this kind."""
    resources, places = table.resources, Places.of(among.values())
    _fill(table, kind, places)
    for _, each in held:
        places.add_holder(resources[each.resource].name, each.more_mb)
    turn = turn_of_one(
        places, head.want(resources), _last(table, head.record),
        (now - head.clock) / NANO, table.kinds[kind].fair_turns,
    )  # fmt: skip
    if turn.place is None:
        return Choice([], places, turn.fair_turns, {})
    newest = max(each.turn for each in table.accounts.values() if each.kind == kind)
    account = head.record.account
    after = {account: (table.accounts[account].lead, newest + 1)}
    granted = head.gets(_number(among, turn.place))
    return Choice(granted, places, turn.fair_turns, after)


def _fairest(
    table: Table,
    kind: int,
    among: dict[int, Resource],
    held: Seats,
    heads: list[FirstInLine],
    now: int,
) -> Choice:
    accounts = _accounts(table, kind, held, now)
    before = {number: (each.lead, each.turn) for number, each in accounts.items()}
    queue = FairQueue[int](
        among.values(), accounts.values(), fair_turns=table.kinds[kind].fair_turns
    )
    _fill(table, kind, queue.places)
    resources = table.resources
    for seat, each in held:
        want, name = want_of(each, resources), resources[each.resource].name
        queue.hold(seat, accounts[each.account], now / NANO, want=want, resource=name)
    for head in heads:
        each, account = head.record, accounts[head.record.account]
        want, last = head.want(resources), _last(table, each)
        since = head.clock / NANO
        queue.wait(head.seat, account, since, want=want, priority=each.priority, last=last)
    by_seat = {head.seat: head for head in heads}
    granted = [
        pair
        for seat, name in queue.grants(now / NANO)
        for pair in by_seat[seat].gets(_number(among, name))
    ]
    after = {number: (each.lead, each.turn) for number, each in accounts.items()}
    changed = {number: pair for number, pair in after.items() if pair != before[number]}
    return Choice(granted, queue.places, queue.fair_turns, changed)


def _heads(here: Contenders, most: int) -> list[FirstInLine]:
    """The first ``most`` of each queue, oldest first: those behind them get nothing now.

    A party is a queue of its own.
    """
    queues: dict[_Line, Seats] = {}
    for pair in here.waiting:
        queues.setdefault(_line(pair[1]), []).append(pair)
    heads = list[FirstInLine]()
    for line, queue in queues.items():
        queue.sort(key=lambda pair: (pair[1].since, pair[0]))
        seat, first = queue[0]
        if first.party:
            heads.append(FirstInLine(first.since, first.since, seat, first, queue[1:]))
            continue
        mine = [each for _, each in here.seats if each.account == line[0]]
        last_turn = max(each.turn for each in mine if _line(each) == line)
        clock = max(first.since, last_turn)
        heads += [FirstInLine(clock, each.since, seat, each) for seat, each in queue[:most]]
    heads.sort(key=lambda head: head[:3])
    return heads


def _line(seat: SeatRecord) -> _Line:
    if seat.party:
        return (seat.party,)
    return seat.account, seat.wants, seat.more_mb, seat.priority


def _fill(table: Table, kind: int, places: Places) -> None:
    """Count the memory that seats have left on resources as taken there."""
    for each in table.seats.values():
        if each.left_mb and each.kind == kind:
            places.add_memory(table.resources[each.wants].name, each.left_mb)


def _last(table: Table, seat: SeatRecord) -> str:
    return table.resources[seat.last].name if seat.last in table.resources else ""


def _number(among: dict[int, Resource], name: str) -> int:
    return next(number for number, each in among.items() if each.name == name)


def _accounts(table: Table, kind: int, held: Seats, now: int) -> dict[int, Account]:
    accounts = {
        number: Account(
            each.workload, each.weight, each.held / NANO, each.lead, each.turn, since=now / NANO
        )
        for number, each in table.accounts.items()
        if each.kind == kind
    }
    for seat, each in held:
        meter = table.lease_word(seat, METER)
        accounts[each.account].seconds += held_at(meter, now) / NANO
    return accounts
