"""What a pool looks like from outside: for people (``artos pool``) and for bills."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from artos.clock import Clock, SystemClock
from artos.pool.choice import NANO
from artos.pool.faults import PoolDamaged
from artos.pool.file import discard
from artos.pool.folder import TABLE, PoolFolder, pool_folder
from artos.pool.memory import shortage
from artos.pool.meter import held_at
from artos.pool.records import (
    ASKS,
    EARLY,
    HELD,
    MEMORY,
    METER,
    NONE,
    SINCE,
    UNTIL,
    SeatRecord,
)
from artos.pool.scheduler import LeaseScheduler
from artos.pool.table import Table
from artos.pool.watch import WakeUps
from artos.system import gpus


class HeldUsage(msgspec.Struct, frozen=True):
    """What one workload has held of one kind of resources, by the clock of its leases."""

    workload: str
    kind: str
    weight: float
    held_seconds: float
    turns: int
    """Decisions in its favour; leases that began again while no other waited took none."""
    waits: int
    """Leases that did not come at once."""
    waited_for_turn_seconds: float
    """Waits in which it lacked a turn in the end."""
    waited_for_memory_seconds: float
    """Waits in which it lacked memory in the end."""


class ResourceView(msgspec.Struct, frozen=True):
    """A resource and how much of it is taken."""

    name: str
    kind: str
    share: int
    holders: int
    memory_mb: int
    memory_taken_mb: int
    memory_idle_mb: int = 0
    """The part of what is taken that belongs to seats without a lease."""
    uuid: str = ""
    """Which GPU it is, if it is one and that is known."""
    busy_percent: int | None = None
    """The share of the last second, or less, in which that GPU computed, for any process.

    By its driver; None where no driver measures it.
    """


class HolderView(msgspec.Struct, frozen=True):
    """A lease that runs."""

    resource: str
    workload: str
    pid: int
    process: str
    held_seconds: float
    left_seconds: float | None
    """Negative if it is overdue; None: it has no deadline."""


class WaitingView(msgspec.Struct, frozen=True):
    """A contender that waits."""

    what: str
    """The resource that it names, or a kind if it takes any."""
    workload: str
    pid: int
    process: str
    weight: float
    priority: int
    memory_mb: int
    waited_seconds: float
    why: str
    """``turn``, ``memory``, or ``party``: others of its party have not asked yet."""
    lacks_mb: int = 0
    """How much memory it lacks, where that is why."""
    held_by: list[str] = []
    """Workload, process and MB of those that have it."""
    beside: list[str] = []
    """The resources that its party gets at the same time, or none of them."""
    missing: list[str] = []
    """Who of its party has not asked yet."""


class PoolView(msgspec.Struct, frozen=True):
    """The pool of a machine."""

    folder: str
    resources: list[ResourceView] = []
    holders: list[HolderView] = []
    queue: list[WaitingView] = []
    """Those that wait, the longest first."""
    workloads: list[HeldUsage] = []


def read_pool(folder: Path | None = None, clock: Clock | None = None) -> PoolView:
    """The pool of this machine and user; empty if there is none. What ended members had is freed.

    Raises:
        PoolVersion, PoolDamaged, PoolStuck, NotOurs: as ``Pool.join``.
    """
    folder, now = folder or pool_folder(), int((clock or SystemClock()).now() * NANO)
    try:
        table = Table.open(folder, create=False)
    except FileNotFoundError:
        return PoolView(str(folder))
    with table, WakeUps(table.folder) as wake_ups:
        with table.change():
            scheduler = LeaseScheduler(table, now)
            scheduler.reclaim()
            lives = bool(len(table.members))
            view = view_of(table, folder, now) if lives else PoolView(str(folder))
            if not lives:
                table.remove()
        for number in scheduler.effects.wake:
            if number in table.members:
                wake_ups.wake(number, table.members[number])
    busy = [gpus.busy_percent(0, each.uuid) if each.uuid else None for each in view.resources]
    resources = [
        msgspec.structs.replace(each, busy_percent=percent)
        for each, percent in zip(view.resources, busy, strict=True)
    ]
    return msgspec.structs.replace(view, resources=resources)


def clean() -> list[Path]:
    """Remove the pool that killed processes left, or a damaged one; returns what was removed.

    Raises:
        PoolDamaged: it is damaged, and living processes use it.
        PoolVersion, PoolStuck, NotOurs: as ``Pool.join``.
    """
    folder = pool_folder()
    there, table = os.path.lexists(folder), os.path.lexists(folder / TABLE)
    try:
        read_pool(folder)
    except PoolDamaged:
        with suppress(FileNotFoundError), PoolFolder.open(folder, create=False) as opened:
            discard(opened)
    if there and not os.path.lexists(folder):
        return [folder]
    return [folder / TABLE] if table and not os.path.lexists(folder / TABLE) else []


def view_of(table: Table, folder: Path, now: int) -> PoolView:
    """What a table says at ``now`` (ns); within ``Table.change``."""
    asking = [(number, each) for number, each in table.seats.items() if each.state in ASKS]
    asking.sort(key=lambda pair: pair[1].since)
    held = [(number, each) for number, each in table.seats.items() if _is_held(table, number)]
    running = []
    for number, seat in held:
        until, member = table.lease_word(number, UNTIL), table.members[seat.member]
        left = (until - now) / NANO if until else None
        workload, since = table.accounts[seat.account].workload, table.lease_word(number, SINCE)
        name, held_seconds = table.resources[seat.resource].name, (now - since) / NANO
        running.append(HolderView(name, workload, member.pid, member.name, held_seconds, left))
    return PoolView(
        str(folder),
        _resources(table, [each for _, each in held]),
        running,
        [_waiting(table, seat, now) for seat, _ in asking],
        held_usage(table, now),
    )


def _is_held(table: Table, seat: int) -> bool:
    """Whether a lease of a seat runs; not if it only keeps what it had: others can have that."""
    return table.seats[seat].state == HELD and bool(table.lease_word(seat, METER) & 1)


def _resources(table: Table, held: list[SeatRecord]) -> list[ResourceView]:
    found = []
    for number, each in table.resources.items():
        mine = [seat for seat in held if seat.resource == number]
        used, kind = sum(seat.memory_mb for seat in mine), table.kinds[each.kind].name
        there = [(n, seat) for n, seat in table.seats.items() if seat.wants == number]
        idle = sum(seat.left_mb for n, seat in there if not _is_held(table, n))
        found.append(
            ResourceView(
                each.name, kind, each.share, len(mine), each.memory_mb, used + idle, idle, each.uuid
            )
        )
    return found


def _waiting(table: Table, number: int, now: int) -> WaitingView:
    seat, missing = table.seats[number], missing_of(table, number)
    account, member = table.accounts[seat.account], table.members[seat.member]
    what = table.kinds[seat.kind] if seat.wants == NONE else table.resources[seat.wants]
    return WaitingView(
        what.name,
        account.workload,
        member.pid,
        member.name,
        account.weight,
        seat.priority,
        seat.memory_mb,
        (now - seat.since) / NANO,
        "party" if missing else "memory" if seat.cause == MEMORY else "turn",
        lack.lacking_mb if (lack := shortage(table, seat)) else 0,
        [*lack.held_by] if lack else [],
        party_of(table, number),
        missing,
    )


def party_of(table: Table, seat: int) -> list[str]:
    """The resources that the others are for of a seat's party; none if it has no party."""
    return [table.resources[each.wants].name for each in _others_of(table, seat)]


def missing_of(table: Table, seat: int) -> list[str]:
    """Who of the party of a seat that has asked has not; sentences, for people."""
    if table.seats[seat].state != EARLY:
        return []
    there = _others_of(table, seat)
    found = [
        f"process {table.members[each.member].pid} "
        f"{'still has' if each.state == HELD else 'has not asked for'} "
        f"{table.resources[each.wants].name}"
        for each in there
        if each.state not in ASKS
    ]
    empty = table.seats[seat].party_seats - 1 - len(there)
    if empty:
        seats = "one seat of the party is" if empty == 1 else f"{empty} seats of the party are"
        found.append(f"{seats} not taken")
    return found


def _others_of(table: Table, seat: int) -> list[SeatRecord]:
    party = table.seats[seat].party
    return [each for n, each in table.seats.items() if party and each.party == party and n != seat]


def held_usage(table: Table, now: int) -> list[HeldUsage]:
    """What all workloads have held; within ``Table.change``."""
    running = dict[int, int]()
    for number, each in table.seats.items():
        if each.state == HELD:
            held = held_at(table.lease_word(number, METER), now)
            running[each.account] = running.get(each.account, 0) + held
    return [
        HeldUsage(
            each.workload,
            table.kinds[each.kind].name,
            each.weight,
            (each.held + running.get(number, 0)) / NANO,
            each.turns,
            each.waits,
            each.waited_busy / NANO,
            each.waited_memory / NANO,
        )
        for number, each in table.accounts.items()
    ]


def holders(table: Table, kind: int) -> list[str]:
    """Who has what of a kind: resource, workload and process of each."""
    return [
        f"{table.resources[seat.resource].name} by {table.accounts[seat.account].workload!r} "
        f"(process {table.members[seat.member].pid})"
        for seat in table.seats.values()
        if (seat.state, seat.kind) == (HELD, kind)
    ]
