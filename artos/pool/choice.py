"""Who is to get what of a kind, by the table: its fair queue, rebuilt as far as it matters now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from artos.pool.accounts import Account
from artos.pool.fair_queue import FairQueue, turn_of_one
from artos.pool.meter import held_at
from artos.pool.records import HELD, METER, NONE, WAITING, SeatRecord, want_of
from artos.pool.resources import Places, Resource
from artos.pool.table import Table

NANO = 1_000_000_000

Seats = list[tuple[int, SeatRecord]]
_Line = tuple[int, int, int, int]
"""What the seats of one queue have in common."""


class Choice(NamedTuple):
    """What was decided: seats and the resources that they get, and what is other than before.

    ``accounts`` has the lead and the last turn of those accounts for which they changed.
    """

    granted: list[tuple[int, int]]
    places: Places
    fair_turns: int
    accounts: dict[int, tuple[float, int]]


class Head(NamedTuple):
    """The first of a queue; ``clock`` (ns) is when the queue had its last turn, or began."""

    clock: int
    since: int
    seat: int
    record: SeatRecord


@dataclass(slots=True)
class Present:
    """The seats for one kind of resource."""

    kind: int
    seats: Seats
    waiting: Seats
    held: Seats

    @classmethod
    def of(cls, table: Table, kind: int) -> Present:
        """Those of the table."""
        here = cls(kind, [pair for pair in table.seats.items() if pair[1].kind == kind], [], [])
        here.regroup()
        return here

    def regroup(self) -> None:
        """Look again which of them wait and which hold."""
        self.waiting = [pair for pair in self.seats if pair[1].state == WAITING]
        self.held = [pair for pair in self.seats if pair[1].state == HELD]


def resources_of(table: Table, kind: int) -> dict[int, Resource]:
    """The resources of a kind, by number; which GPU each is does not matter here."""
    name = table.kinds[kind].name
    records = table.resources.items()
    return {
        number: Resource(each.name, name, each.share, each.memory_mb)
        for number, each in records
        if each.kind == kind
    }


def wanted(table: Table, waiting: Seats) -> set[int]:
    """The resources that one of these could use."""
    found = {each.wants for _, each in waiting}
    if NONE in found:
        kinds = {each.kind for _, each in waiting if each.wants == NONE}
        found |= {number for number, each in table.resources.items() if each.kind in kinds}
    return found


def choose(
    table: Table,
    here: Present,
    among: dict[int, Resource],
    held: Seats,
    most: int,
    now: int,
) -> Choice:
    """Who gets what of these resources, while these seats hold theirs; ``most`` can get any."""
    heads = _heads(here, most)
    if len(heads) == 1:
        return _alone(table, here.kind, among, held, heads[0], now)
    return _fairest(table, here.kind, among, held, heads, now)


def heirs(table: Table, here: Present, now: int) -> dict[int, int]:
    """Who gets what a seat holds once it gives that back, by seat, as far as that is certain.

    It is where a single queue waits: whatever time brings, its first one is compared with nobody.
    """
    if not here.waiting or not here.held or len(heads := _heads(here, 1)) > 1:
        return {}
    head = heads[0]
    return {
        seat: head.seat
        for seat, each in here.held
        if head.record.wants in (NONE, each.resource)
        and (
            not table.resources[each.resource].memory_mb
            or inherited(table, here, seat, each.resource, now).granted
        )
    }


def inherited(table: Table, here: Present, seat: int, resource: int, now: int) -> Choice:
    """The first that waits gets the resource of a seat that holds no more, if there is memory."""
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
    table: Table, kind: int, among: dict[int, Resource], held: Seats, head: Head, now: int
) -> Choice:
    """Whoever has nobody to be compared with; most decisions are this one."""
    resources, places = table.resources, Places.of(among.values())
    _fill(table, kind, places)
    for _, each in held:
        places.take(resources[each.resource].name, each.more_mb)
    turn = turn_of_one(
        places, want_of(head.record, resources), _last(table, head.record),
        (now - head.clock) / NANO, table.kinds[kind].fair_turns,
    )  # fmt: skip
    if turn.place is None:
        return Choice([], places, turn.fair_turns, {})
    newest = max(each.turn for each in table.accounts.values() if each.kind == kind)
    account = head.record.account
    after = {account: (table.accounts[account].lead, newest + 1)}
    return Choice([(head.seat, _number(among, turn.place))], places, turn.fair_turns, after)


def _fairest(
    table: Table,
    kind: int,
    among: dict[int, Resource],
    held: Seats,
    heads: list[Head],
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
        want, last = want_of(each, resources), _last(table, each)
        since = head.clock / NANO
        queue.wait(head.seat, account, since, want=want, priority=each.priority, last=last)
    granted = [(seat, _number(among, name)) for seat, name in queue.grants(now / NANO)]
    after = {number: (each.lead, each.turn) for number, each in accounts.items()}
    changed = {number: pair for number, pair in after.items() if pair != before[number]}
    return Choice(granted, queue.places, queue.fair_turns, changed)


def _heads(here: Present, most: int) -> list[Head]:
    """The first ``most`` of each queue, oldest first: those behind them get nothing now."""
    queues: dict[_Line, Seats] = {}
    for pair in here.waiting:
        queues.setdefault(_line(pair[1]), []).append(pair)
    heads = list[Head]()
    for line, queue in queues.items():
        queue.sort(key=lambda pair: (pair[1].since, pair[0]))
        clock = max(queue[0][1].since, _last_turn(here, line))
        heads += [Head(clock, each.since, seat, each) for seat, each in queue[:most]]
    heads.sort(key=lambda head: head[:3])
    return heads


def _last_turn(here: Present, line: _Line) -> int:
    mine = [each for _, each in here.seats if each.account == line[0]]
    return max(each.turn for each in mine if _line(each) == line)


def _line(seat: SeatRecord) -> _Line:
    return seat.account, seat.wants, seat.more_mb, seat.priority


def _fill(table: Table, kind: int, places: Places) -> None:
    """What seats have left on resources is taken there."""
    for each in table.seats.values():
        if each.left_mb and each.kind == kind:
            places.fill(table.resources[each.wants].name, each.left_mb)


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
        meter = table.live_word(seat, METER)
        accounts[each.account].seconds += held_at(meter, now) / NANO
    return accounts
