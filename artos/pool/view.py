"""What a pool looks like from outside: for people (``artos pool``) and for bills."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from artos.clock import Clock, SystemClock
from artos.pool.choice import NANO
from artos.pool.clerk import Clerk
from artos.pool.faults import PoolDamaged
from artos.pool.file import discard
from artos.pool.folder import TABLE, PoolFolder, pool_folder
from artos.pool.memory import shortage
from artos.pool.meter import held_at
from artos.pool.records import HELD, MEMORY, METER, NONE, SINCE, UNTIL, WAITING, SeatRecord
from artos.pool.table import Table
from artos.pool.watch import Bells
from artos.system import gpus


class HeldUsage(msgspec.Struct, frozen=True):
    """What one workload has held of one kind of resources, by the clock of its leases.

    ``turns`` counts decisions in its favour; leases that began again while nobody waited took none.
    ``waits`` counts leases that did not come at once. Seconds waited are by what was lacking last:
    a turn, or memory.
    """

    workload: str
    kind: str
    weight: float
    held_seconds: float
    turns: int
    waits: int
    waited_for_turn_seconds: float
    waited_for_memory_seconds: float


class ResourceView(msgspec.Struct, frozen=True):
    """A resource and how much of it is taken.

    ``memory_idle_mb`` is that part of what is taken which belongs to seats without a lease;
    ``uuid`` which GPU it is, if it is one and that is known. ``busy_percent`` is the share of the
    last moments (a second at most) in which that GPU computed anything, by its driver, whoever had
    it; None where nobody measures that.
    """

    name: str
    kind: str
    share: int
    holders: int
    memory_mb: int
    memory_taken_mb: int
    memory_idle_mb: int = 0
    uuid: str = ""
    busy_percent: int | None = None


class HolderView(msgspec.Struct, frozen=True):
    """A lease. ``left_seconds`` is negative if it is late; None: it has no deadline."""

    resource: str
    workload: str
    pid: int
    process: str
    held_seconds: float
    left_seconds: float | None


class WaitingView(msgspec.Struct, frozen=True):
    """A contender that waits, for any ``what`` (a kind) or the one that is named.

    ``why`` is ``turn`` or ``memory``; then it lacks ``lacks_mb``, which those in ``held_by`` have.
    """

    what: str
    workload: str
    pid: int
    process: str
    weight: float
    priority: int
    memory_mb: int
    waited_seconds: float
    why: str
    lacks_mb: int = 0
    held_by: list[str] = []


class PoolView(msgspec.Struct, frozen=True):
    """The pool of a machine: resources, who holds, who waits (longest first), and all accounts."""

    folder: str
    resources: list[ResourceView] = []
    holders: list[HolderView] = []
    queue: list[WaitingView] = []
    workloads: list[HeldUsage] = []


def look(folder: Path | None = None, clock: Clock | None = None) -> PoolView:
    """The pool of this machine and user; empty if there is none. What the dead had is freed.

    Raises:
        PoolVersion, PoolDamaged, PoolStuck, NotOurs: see there.
    """
    folder, now = folder or pool_folder(), int((clock or SystemClock()).now() * NANO)
    try:
        table = Table.open(folder, create=False)
    except FileNotFoundError:
        return PoolView(str(folder))
    with table, Bells(table.folder) as bells:
        with table.change():
            clerk = Clerk(table, now)
            clerk.bury()
            lives = bool(len(table.members))
            view = _view(table, folder, now) if lives else PoolView(str(folder))
            if not lives:
                table.remove()
        for number in clerk.news.wake:
            if number in table.members:
                bells.ring(number, table.members[number])
    return msgspec.structs.replace(view, resources=[_measured(each) for each in view.resources])


def _measured(resource: ResourceView) -> ResourceView:
    busy = gpus.busy_percent(0, resource.uuid) if resource.uuid else None
    return msgspec.structs.replace(resource, busy_percent=busy)


def clean() -> list[Path]:
    """Remove the pool that killed processes left, or a damaged one; returns what was removed.

    Raises:
        PoolDamaged: it is, and living processes use it.
        PoolVersion, PoolStuck, NotOurs: see there.
    """
    folder = pool_folder()
    there, table = os.path.lexists(folder), os.path.lexists(folder / TABLE)
    try:
        look(folder)
    except PoolDamaged:
        with suppress(FileNotFoundError), PoolFolder.open(folder, create=False) as opened:
            discard(opened)
    if there and not os.path.lexists(folder):
        return [folder]
    return [folder / TABLE] if table and not os.path.lexists(folder / TABLE) else []


def _view(table: Table, folder: Path, now: int) -> PoolView:
    seats = table.seats.values()
    waiting = sorted((each for each in seats if each.state == WAITING), key=lambda s: s.since)
    held = [(number, each) for number, each in table.seats.items() if _is_held(table, number)]
    return PoolView(
        str(folder),
        _resources(table, [each for _, each in held]),
        [_holder(table, number, each, now) for number, each in held],
        [_waiting(table, each, now) for each in waiting],
        held_usage(table, now),
    )


def _is_held(table: Table, seat: int) -> bool:
    """Not if it only keeps what it had last: anybody can have that."""
    return table.seats[seat].state == HELD and bool(table.live_word(seat, METER) & 1)


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


def _holder(table: Table, number: int, seat: SeatRecord, now: int) -> HolderView:
    until, member = table.live_word(number, UNTIL), table.members[seat.member]
    return HolderView(
        table.resources[seat.resource].name,
        table.accounts[seat.account].workload,
        member.pid,
        member.name,
        (now - table.live_word(number, SINCE)) / NANO,
        (until - now) / NANO if until else None,
    )


def _waiting(table: Table, seat: SeatRecord, now: int) -> WaitingView:
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
        "memory" if seat.cause == MEMORY else "turn",
        lack.lacking_mb if (lack := shortage(table, seat)) else 0,
        [*lack.held_by] if lack else [],
    )


def held_usage(table: Table, now: int) -> list[HeldUsage]:
    """What all workloads have held; within ``Table.change``."""
    running = dict[int, int]()
    for number, each in table.seats.items():
        if each.state == HELD:
            held = held_at(table.live_word(number, METER), now)
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
    """Who has what of a kind, in words."""
    return [
        f"{table.resources[seat.resource].name} by {table.accounts[seat.account].workload!r} "
        f"(process {table.members[seat.member].pid})"
        for seat in table.seats.values()
        if (seat.state, seat.kind) == (HELD, kind)
    ]
